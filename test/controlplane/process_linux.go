package controlplane

import (
	"os/exec"
	"syscall"
)

// startDying starts the command; the kernel kills it when this process ends, however it ends. Its
// own process group keeps a terminal's interrupt from it. Call the returned function when the
// command has ended.
func startDying(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return func() {}, cmd.Start()
}
