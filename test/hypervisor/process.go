package hypervisor

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running libvirtd.
type process struct {
	cmd *exec.Cmd
	// done is closed when it has ended.
	done chan struct{}
}

// startProcess starts the command so that it ends with this process, however that ends. Linux sends
// the signal for it when the *thread* that started the child ends, so that one thread stays with
// the child.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// end sends a signal and waits until the process is gone; after grace it is killed. A nil process
// has ended.
func (p *process) end(signal syscall.Signal, grace time.Duration) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(signal) // fails only when it has ended already
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// emulators are the programs that libvirt starts and that outlive it.
var emulators = []string{"qemu-system-", "swtpm"}

// killEmulators ends the emulators that work in dir: its name is on their command line. It returns
// when they are gone.
func killEmulators(dir string) {
	for range 100 {
		pids := emulatorsIn(dir)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
		time.Sleep(pollInterval)
	}
}

// emulatorsIn are the process ids of the emulators that work in dir.
func emulatorsIn(dir string) []int {
	var pids []int
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		command, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(command, []byte(dir+"/")) {
			continue // ended, or another user's
		}
		program, _, _ := strings.Cut(string(command), "\x00")
		for _, emulator := range emulators {
			if strings.HasPrefix(filepath.Base(program), emulator) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
