package hypervisor

import (
	"os/exec"
	"syscall"
)

// bind makes a command run as the account and end with the thread that starts it, apart from the
// terminal.
func bind(cmd *exec.Cmd, as account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as.credential(), Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
