//! The functions for acknowledgements that `docs/use/crash-programs.md` shows, in the languages
//! that are installed here.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PAGE: &str = include_str!("../../../../docs/use/crash-programs.md");

/// Name of the shim; a program around it, and the commands that make and run it.
const PROGRAMS: [(&str, &str, &str, &str); 6] = [
    (
        "ack.py",
        "main.py",
        "from ack import ack\nack('saved 1')\nack('saved 2')\n",
        "python3 main.py",
    ),
    (
        "ack.rs",
        "main.rs",
        "include!(\"ack.rs\");\nfn main() { ack(\"saved 1\"); ack(\"saved 2\"); }\n",
        "rustc --edition 2024 -o main main.rs && ./main",
    ),
    (
        "ack.go",
        "main.go",
        "package main\nfunc main() { ack(\"saved 1\"); ack(\"saved 2\") }\n",
        "go run ack.go main.go",
    ),
    (
        "ack.h",
        "main.c",
        "#include \"ack.h\"\nint main(void) { ack(\"saved 1\"); ack(\"saved 2\"); }\n",
        "cc -Wall -Wextra -Werror -o main main.c && ./main",
    ),
    (
        "ack.js",
        "main.js",
        "const { ack } = require('./ack.js');\nack('saved 1');\nack('saved 2');\n",
        "node main.js",
    ),
    (
        "ack.sh",
        "main.sh",
        ". ./ack.sh\nack saved 1\nack saved 2\n",
        "sh main.sh",
    ),
];

/// The block of the page that is marked with this name.
fn block(name: &str) -> &'static str {
    let (_, rest) = PAGE
        .split_once(&format!("<!-- shim: {name} -->\n```"))
        .expect(name);
    let (_, rest) = rest.split_once('\n').expect(name);
    rest.split_once("```").expect(name).0
}

fn run(text: &str, folder: &Path, acks: Option<&Path>) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", text]).current_dir(folder);
    match acks {
        Some(acks) => shell.env("VARVE_ACKS", acks),
        None => shell.env_remove("VARVE_ACKS"),
    };
    shell.output().expect("a shell")
}

#[test]
fn each_language_acknowledges_with_the_function_of_the_page() {
    let mut ran = 0;
    for (shim, main, program, text) in PROGRAMS {
        let folder = tempfile::tempdir().expect("a folder");
        let tool = text.split(' ').next().expect("a tool");
        if !run(&format!("command -v {tool}"), folder.path(), None)
            .status
            .success()
        {
            eprintln!("{shim}: left out, there is no {tool}");
            continue;
        }
        ran += 1;
        assert!(
            block(shim).trim().lines().count() <= 12,
            "{shim} is to be short"
        );
        fs::write(folder.path().join(shim), block(shim)).expect("a file");
        fs::write(folder.path().join(main), program).expect("a file");
        let acks = folder.path().join("acks");
        fs::write(&acks, "").expect("a file");
        // Without the variable nothing is written, and nothing fails.
        for acks in [None, Some(&*acks)] {
            let output = run(text, folder.path(), acks);
            assert!(output.status.success(), "{shim}: {output:?}");
        }
        let written = fs::read_to_string(&acks).expect("a file");
        assert_eq!(written, "saved 1\nsaved 2\n", "{shim}");
    }
    assert!(ran >= 2, "a shell and Rust are here");
}
