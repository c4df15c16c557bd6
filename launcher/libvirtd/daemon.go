// Package libvirtd runs a session libvirt daemon as a child of the launcher, and does what the
// launcher needs with its domain. Every call has a time limit.
package libvirtd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
)

const (
	startTimeout = time.Minute           // limits the start of the daemon, which asks QEMU for its capabilities
	retryPeriod  = 50 * time.Millisecond // the time between two attempts to connect
	callTimeout  = 2 * time.Minute       // limits a call; the start of a domain takes longest
	dialTimeout  = 30 * time.Second      // limits the first call, for which the daemon asks QEMU for its capabilities
	driver       = "qemu:///session"
)

// searchPath has the programs. The environment is ignored.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// settings are the daemon's settings by file. QEMU writes logs itself: there is no virtlogd.
var settings = map[string]string{
	"qemu.conf":     "stdio_handler = \"file\"\nsecurity_driver = \"none\"\n",
	"libvirtd.conf": "log_outputs = \"4:stderr\"\n",
}

// A Daemon is a session libvirtd with all its files below one folder.
type Daemon struct {
	// Folder has the files of the daemon. Its path must be short, since sockets are deep below it.
	Folder string

	process *os.Process
	ended   chan struct{}
}

// Stop kills the daemon. Domains keep running.
func (d *Daemon) Stop() {
	if d.process != nil {
		_ = d.process.Kill() // it may have ended
		<-d.ended
	}
}

// Connect connects to the daemon. It starts the daemon if it does not run.
func (d *Daemon) Connect(ctx context.Context) (*Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	started, err := d.start()
	if err != nil {
		return nil, fmt.Errorf("cannot start libvirtd: %w", err)
	}
	for {
		c, err := connect(filepath.Join(d.Folder, "libvirt", "libvirt-sock"))
		if err == nil {
			return c, nil
		}
		select {
		case <-d.ended:
			if started { // otherwise it was an earlier one that has just ended
				return nil, fmt.Errorf("cannot start libvirtd: %s", d.log())
			}
			if started, err = d.start(); err != nil {
				return nil, fmt.Errorf("cannot start libvirtd: %w", err)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s", err, d.log())
		case <-time.After(retryPeriod):
		}
	}
}

// start starts the daemon unless it runs, and reports whether it did.
func (d *Daemon) start() (bool, error) {
	if d.ended != nil {
		select {
		case <-d.ended:
		default:
			return false, nil
		}
	}
	config := filepath.Join(d.Folder, "c", "libvirt")
	err := errors.Join(os.MkdirAll(config, 0o700), os.Setenv("PATH", searchPath))
	for name, content := range settings {
		err = errors.Join(err, os.WriteFile(filepath.Join(config, name), []byte(content), 0o600))
	}
	if err != nil {
		return false, err
	}
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	defer log.Close()
	cmd := exec.Command("libvirtd", "--pid-file", filepath.Join(d.Folder, "libvirtd.pid"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.Folder, log, log
	cmd.Env = []string{
		"PATH=" + searchPath, "LC_ALL=C.UTF-8", "HOME=" + d.Folder, "XDG_RUNTIME_DIR=" + d.Folder,
		"XDG_CONFIG_HOME=" + filepath.Join(d.Folder, "c"), "XDG_CACHE_HOME=" + filepath.Join(d.Folder, "k"),
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan struct{})
	d.process, d.ended = cmd.Process, ended
	go func() {
		_ = cmd.Wait() // its log has the reason
		close(ended)
	}()
	return true, nil
}

func (d *Daemon) logFile() string { return filepath.Join(d.Folder, "libvirtd.log") }

// log is the last line that the daemon wrote.
func (d *Daemon) log() string {
	content, err := os.ReadFile(d.logFile())
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if err != nil || lines[len(lines)-1] == "" {
		return "no message in its log"
	}
	return lines[len(lines)-1]
}

// ErrNotConnected is returned when the daemon does not answer.
var ErrNotConnected = errors.New("libvirtd cannot be reached")

// A Connection is a connection to a daemon.
type Connection struct {
	to   *libvirt.Libvirt
	wire net.Conn
	lost <-chan struct{}
	// Changed receives a value after lifecycle events of domains. It is closed with the connection.
	Changed <-chan struct{}
}

func connect(socket string) (*Connection, error) {
	wire, err := net.DialTimeout("unix", socket, dialTimeout)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to libvirtd: %w", err)
	}
	to := libvirt.NewWithDialer(dialers.NewAlreadyConnected(wire))
	err = wire.SetDeadline(time.Now().Add(dialTimeout))
	if err == nil {
		err = to.ConnectToURI(driver)
	}
	if err == nil {
		err = wire.SetDeadline(time.Time{})
	}
	lost, changed := to.Disconnected(), make(chan struct{}, 1)
	if err == nil {
		err = notify(to, lost, changed)
	}
	if err != nil {
		_ = wire.Close()
		return nil, fmt.Errorf("cannot connect to %s: %w", driver, err)
	}
	return &Connection{to: to, wire: wire, lost: lost, Changed: changed}, nil
}

// notify sends to a channel after each lifecycle event, and closes it with the connection.
func notify(to *libvirt.Libvirt, lost <-chan struct{}, changed chan<- struct{}) error {
	events, err := to.LifecycleEvents(context.Background())
	if err != nil {
		return err
	}
	go func() {
		defer close(changed)
		for {
			select {
			case _, open := <-events:
				if !open {
					return
				}
			case <-lost:
				return
			}
			select {
			case changed <- struct{}{}:
			default: // a value is waiting already
			}
		}
	}()
	return nil
}

// Close ends the connection.
func (c *Connection) Close() { _ = c.wire.Close() }

// call makes a call. A timeout closes the connection.
func call[T any](ctx context.Context, c *Connection, do func(*libvirt.Libvirt) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := do(c.to)
		answers <- answer{value, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case a := <-answers:
		var failed libvirt.Error
		if a.err != nil && !errors.As(a.err, &failed) {
			return a.value, fmt.Errorf("%w: %w", ErrNotConnected, a.err)
		}
		return a.value, a.err
	case <-c.lost: // there will be no answer
		var none T
		return none, ErrNotConnected
	case <-ctx.Done():
		c.Close()
		var none T
		return none, fmt.Errorf("%w: %w", ErrNotConnected, ctx.Err())
	}
}

// run makes a call without a result.
func run(ctx context.Context, c *Connection, do func(*libvirt.Libvirt) error) error {
	_, err := call(ctx, c, func(to *libvirt.Libvirt) (struct{}, error) { return struct{}{}, do(to) })
	return err
}
