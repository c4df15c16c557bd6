//go:build !linux

package controlplane

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// startDying starts the command and a small shell that reads from a pipe of this process. The pipe
// closes when this process ends, however it ends, and the shell then kills the command. The
// returned function is to be called when the command has ended.
func startDying(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	watcher := exec.Command("/bin/sh", "-c", `read _; kill -9 "$1"`, "sh", strconv.Itoa(cmd.Process.Pid))
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("cannot start its watcher: %w", err)
	}
	return func() {
		_ = watcher.Process.Kill()
		_ = watcher.Wait()
		_ = pipe.Close()
	}, nil
}
