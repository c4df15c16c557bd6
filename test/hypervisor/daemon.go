package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the start of libvirtd, which asks QEMU what it can do.
	startTimeout = time.Minute
	// commandTimeout bounds one virsh.
	commandTimeout = time.Minute
	// stopGrace is how long libvirtd has to end when asked to.
	stopGrace    = 10 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Daemon is a session libvirtd with QEMU.
type Daemon struct {
	// Dir is the daemon's folder. Files that domains use may be put here; give them to the daemon's
	// account with Own. It is removed by Stop.
	Dir string
	// Socket is the path of libvirtd's socket. It stays the same over restarts.
	Socket string
	// URI leads to the QEMU driver, TestURI to libvirt's test driver in the same daemon, which
	// starts nothing and forgets everything when the last client disconnects.
	URI, TestURI string

	account account
	lock    *os.File

	mu      sync.Mutex
	process *process
	stopped bool
}

// Start starts a daemon that ends with the test, or skips the test as Require says.
func Start(t T) *Daemon {
	t.Helper()
	Require(t)
	d, err := start()
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(d.Stop)
	return d
}

// start leaves nothing behind when it fails.
func start() (*Daemon, error) {
	as, err := newAccount()
	if err != nil {
		return nil, err
	}
	dir, lock, err := makeFolder()
	if err != nil {
		return nil, err
	}
	d := &Daemon{Dir: dir, account: as, lock: lock, Socket: filepath.Join(dir, "r", "libvirt", "libvirt-sock")}
	d.URI = "qemu+unix:///session?socket=" + d.Socket
	d.TestURI = "test+unix:///default?socket=" + d.Socket
	if err := d.configure(); err != nil {
		d.Stop()
		return nil, err
	}
	if err := d.Restart(); err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

// configure writes the settings of libvirtd. Without virtlogd, QEMU writes the logs of consoles
// itself.
func (d *Daemon) configure() error {
	config := filepath.Join(d.Dir, "c", "libvirt")
	for _, dir := range []string{config, filepath.Join(d.Dir, "r"), filepath.Join(d.Dir, "k")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("cannot make a folder of the daemon: %w", err)
		}
	}
	for name, content := range map[string]string{
		"qemu.conf":     "stdio_handler = \"file\"\n",
		"libvirtd.conf": "log_outputs = \"3:stderr\"\n",
	} {
		if err := os.WriteFile(filepath.Join(config, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("cannot configure the daemon: %w", err)
		}
	}
	return d.account.own(d.Dir)
}

// Env is the environment that leads a program to this daemon and its folders, in the form of
// os.Environ.
func (d *Daemon) Env() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + d.Dir,
		"XDG_RUNTIME_DIR=" + filepath.Join(d.Dir, "r"),
		"XDG_CONFIG_HOME=" + filepath.Join(d.Dir, "c"),
		"XDG_CACHE_HOME=" + filepath.Join(d.Dir, "k"),
	}
}

// Command is a command that runs as the daemon's account, in its folder and with Env. The caller
// ends it.
func (d *Daemon) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = d.Dir, d.Env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.account.credential(), Setpgid: true}
	return cmd
}

// Own gives a file, or a folder with everything in it, to the daemon's account, which QEMU runs as.
func (d *Daemon) Own(path string) error { return d.account.own(path) }

// PID is the process id of libvirtd, 0 when it does not run.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil {
		return 0
	}
	return d.process.cmd.Process.Pid
}

// DomainPID is the process id of the QEMU that runs a domain.
func (d *Daemon) DomainPID(domain string) (int, error) {
	content, err := os.ReadFile(filepath.Join(d.Dir, "r", "libvirt", "qemu", "run", domain+".pid"))
	if err != nil {
		return 0, fmt.Errorf("cannot find the process of domain %s: %w", domain, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("cannot read the process id of domain %s: %w", domain, err)
	}
	return pid, nil
}

// Kill ends libvirtd at once, as kill -9 does. Its domains go on.
func (d *Daemon) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process.end(syscall.SIGKILL, stopGrace)
	d.process = nil
}

// Restart kills libvirtd if it runs and starts it again with the same socket and state. It returns
// when libvirtd answers.
func (d *Daemon) Restart() error {
	d.Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return errors.New("cannot restart libvirtd: it was stopped for good")
	}
	program, err := lookup("libvirtd")
	if err != nil {
		return err
	}
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the log of libvirtd: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program, "--pid-file", filepath.Join(d.Dir, "r", "libvirtd.pid"))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.Dir, d.Env(), log, log
	bind(cmd, d.account)
	if d.process, err = startProcess(cmd); err != nil {
		return err
	}
	return d.awaitAnswer(d.process)
}

// awaitAnswer returns when libvirtd has a connection to QEMU to offer.
func (d *Daemon) awaitAnswer(p *process) error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(pollInterval) {
		if p.ended() {
			return fmt.Errorf("cannot start libvirtd: it ended; the end of its log:\n%s", tail(d.logFile()))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cannot start libvirtd: no answer within %s; the end of its log:\n%s", startTimeout, tail(d.logFile()))
		}
		if connection, err := net.Dial("unix", d.Socket); err == nil {
			_ = connection.Close() // that it was accepted is enough
			_, err = d.Virsh("uri")
			return err
		}
	}
}

// Stop ends every domain, libvirtd, and what it started, and removes the folder. It may be called
// more than once.
func (d *Daemon) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	d.stopped = true
	d.process.end(syscall.SIGTERM, stopGrace)
	d.process = nil
	killEmulators(d.Dir)
	_ = os.RemoveAll(d.Dir) // the next daemon removes leftovers
	d.lock.Close()
}

// Log is what libvirtd said since it was started first.
func (d *Daemon) Log() string {
	content, err := os.ReadFile(d.logFile())
	if err != nil {
		return err.Error()
	}
	return string(content)
}

func (d *Daemon) logFile() string { return filepath.Join(d.Dir, "libvirtd.log") }

// tail is the last lines of a file.
func tail(file string) string {
	const most = 20
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
