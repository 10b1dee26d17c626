//! Where a ledger may live.

use crate::error::LedgerError;
use std::path::Path;

/// Magic numbers of file systems whose locks or write order other machines decide about.
const NETWORK: [(u64, &str); 12] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x5346_414F, "AFS"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0102_1997, "9P"),
    (0x00C3_6400, "Ceph"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x7461_636F, "OCFS2"),
    (0x0116_1970, "GFS2"),
];

/// Refuses a folder on a network file system.
///
/// # Errors
/// [`LedgerError::Network`], or that the folder cannot be looked at.
pub fn refuse_network(folder: &Path) -> Result<(), LedgerError> {
    let stat = rustix::fs::statfs(folder).map_err(|e| LedgerError::file(folder, e.into()))?;
    // The field's width and sign differ between architectures; the numbers are 32 bits.
    let magic = u64::from(stat.f_type as u32);
    match kind(magic) {
        Some(kind) => Err(LedgerError::Network { path: folder.to_owned(), kind }),
        None => Ok(()),
    }
}

fn kind(magic: u64) -> Option<&'static str> {
    NETWORK.iter().find(|(m, _)| *m == magic).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_folders_pass_and_network_ones_are_named() {
        refuse_network(&std::env::temp_dir()).unwrap();
        assert_eq!(kind(0x6969), Some("NFS"));
        assert_eq!(kind(0xFF53_4D42), Some("CIFS"));
        assert_eq!(kind(0xEF53), None, "ext4");
        assert!(refuse_network(Path::new("/nonexistent-folder")).is_err());
    }
}
