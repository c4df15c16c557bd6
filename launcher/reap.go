package launcher

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Reap runs a command as a container's init process: it forwards signals, reaps orphans, and
// returns the command's exit code, or 1 if a signal ended it.
func Reap(command *exec.Cmd) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if err := command.Start(); err != nil {
		return 1, fmt.Errorf("cannot start the launcher: %w", err)
	}
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s) // it may have ended
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("cannot wait for the launcher: %w", err)
		case pid == command.Process.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == command.Process.Pid:
			return 1, fmt.Errorf("the launcher was ended by signal %d", status.Signal())
		}
	}
}
