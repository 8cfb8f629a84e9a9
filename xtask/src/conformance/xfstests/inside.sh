# In name spaces of its own: what is mounted, and who is started, goes with them. xfstests wants users that the host need not have.
mount --bind "$STAND/passwd" /etc/passwd && mount --bind "$STAND/group" /etc/group || exit 1
cd "$SOURCE" || exit 1
./check "$@"
code=$?
for at in "$SCRATCH_MNT" "$TEST_DIR"; do umount "$at" 2>/dev/null; done
exit $code
