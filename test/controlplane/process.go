package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tailLines is how much of a log an error carries.
const tailLines = 15

// process is one running program of the control plane.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	// done is closed when the program has ended.
	done chan struct{}
}

// spawnThread runs functions on one OS thread that lives as long as this process does. Linux sends
// a child its parent-death signal when the thread that started it ends, so children must not be
// started from just any thread.
var spawnThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range work {
			do()
		}
	}()
	return work
})

// startBound starts the command so that it dies with this process. The returned function waits for
// its end.
func startBound(cmd *exec.Cmd) (wait func() error, err error) {
	var release func()
	started := make(chan error)
	spawnThread() <- func() {
		var err error
		release, err = startDying(cmd)
		started <- err
	}
	if err := <-started; err != nil {
		return nil, err
	}
	return func() error {
		defer release()
		return cmd.Wait()
	}, nil
}

// startProcess runs a program with its output in the file NAME.log of dir.
func startProcess(program, dir string, args []string) (*process, error) {
	name := filepath.Base(program)
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	wait, err := startBound(p.cmd)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() {
		_ = wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// kill ends the program at once and waits until it is gone.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	<-p.done
}

// terminate asks the program to end and kills it when it has not within grace.
func (p *process) terminate(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.kill()
	}
}

// exited is the error of a program that ended by itself, nil while it runs.
func (p *process) exited() error {
	select {
	case <-p.done:
		return &exitError{name: p.name, tail: tail(p.log)}
	default:
		return nil
	}
}

// exitError says that a program ended before it was ready.
type exitError struct{ name, tail string }

func (e *exitError) Error() string {
	return fmt.Sprintf("%s ended before it was ready; the end of its log:\n%s", e.name, e.tail)
}

// portTaken tells whether another process took the port that was free when it was chosen.
func (e *exitError) portTaken() bool { return strings.Contains(e.tail, "address already in use") }

// tail is the last lines of a log.
func tail(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
