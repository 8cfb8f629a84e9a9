//! The queue and the ordered plug on whole devices. The tests are one program, so that it is
//! linked once.

mod order_plug;
mod plug;
mod programs;
mod queue;
mod scheduler;
mod wakes;
