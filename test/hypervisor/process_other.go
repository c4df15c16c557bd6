//go:build !linux

package hypervisor

import (
	"os/exec"
	"syscall"
)

// bind makes a command run as the account. No domain runs here, see Require.
func bind(cmd *exec.Cmd, as account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as.credential(), Setpgid: true}
}
