package hypervisor

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// unprivileged is the account that libvirt and QEMU run as when the test runs as root. Every system
// has it.
const unprivileged = "nobody"

// account is whom a daemon and its domains run as.
type account struct {
	uid, gid int
	// other means that this is not the account of this process.
	other bool
}

// newAccount is this process's own account unless that is root.
func newAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	found, err := user.Lookup(unprivileged)
	if err != nil {
		return account{}, fmt.Errorf("cannot find an unprivileged account: %w", err)
	}
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return account{}, fmt.Errorf("cannot read the user id of %s: %w", unprivileged, err)
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return account{}, fmt.Errorf("cannot read the group id of %s: %w", unprivileged, err)
	}
	return account{uid: uid, gid: gid, other: true}, nil
}

// credential makes a process run as the account; nil means as this process.
func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives a file, or a folder and everything in it, to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	err := filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, a.uid, a.gid)
	})
	if err != nil {
		return fmt.Errorf("cannot give %s to the account of the daemon: %w", path, err)
	}
	return nil
}
