//! The six logs that a volume writes at once (`CURSEG_*`), by how soon their blocks are expected to
//! change.

base::words! {
    /// One of the six logs. The number is what the arrays of the checkpoint, the SIT and the
    /// summaries use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Log {
        /// Directory entry blocks.
        HotData = 0 => "hot data",
        /// Ordinary file data.
        WarmData = 1 => "warm data",
        /// Data moved by cleaning, and files of cold extensions.
        ColdData = 2 => "cold data",
        /// Direct nodes of directories.
        HotNode = 3 => "hot node",
        /// Direct nodes of files.
        WarmNode = 4 => "warm node",
        /// Indirect nodes.
        ColdNode = 5 => "cold node",
    }
}

impl Log {
    /// The logs of data.
    pub const DATA: [Log; 3] = [Log::HotData, Log::WarmData, Log::ColdData];
    /// The logs of nodes.
    pub const NODE: [Log; 3] = [Log::HotNode, Log::WarmNode, Log::ColdNode];

    /// The log of a number.
    pub fn from_index(index: usize) -> Option<Log> {
        Log::ALL.get(index).copied()
    }
    /// Its number, 0 to 5.
    pub const fn index(self) -> usize {
        self as usize
    }
    /// True if node blocks go there.
    pub const fn is_node(self) -> bool {
        self.index() >= 3
    }
    /// Its number among the logs of its kind: 0 hot, 1 warm, 2 cold.
    pub const fn heat(self) -> usize {
        self.index() % 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (n, log) in Log::ALL.into_iter().enumerate() {
            assert_eq!((log.index(), Log::from_index(n)), (n, Some(log)));
            assert_eq!((log.is_node(), log.heat()), (n > 2, n % 3));
        }
        assert_eq!(Log::from_index(6), None);
        assert_eq!(
            (Log::DATA[2].word(), Log::NODE[0].to_string()),
            ("cold data", "hot node".into())
        );
    }
}
