package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/filelock"
)

const (
	// readyLine is what run prints when the control plane is ready.
	readyLine = "ready"
	// stopTimeout bounds the wait for a background control plane to end.
	stopTimeout = 30 * time.Second
	// lookInterval is the pace at which another process is looked at.
	lookInterval = 200 * time.Millisecond
)

// instance is a named control plane that runs in a process of its own.
type instance struct {
	name, dir string
	audit     bool
	isNew     bool
	whilePID  int
}

func (in *instance) addRunFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&in.audit, "audit", false, "write an audit log (audit.log beside the kubeconfig)")
	cmd.Flags().IntVar(&in.whilePID, "while", 0, "stop when the process with this id has ended, however it ended (a script passes $$)")
}

func (in *instance) kubeconfig() string { return filepath.Join(in.dir, "kubeconfig") }

func (in *instance) pidFile() string { return filepath.Join(in.dir, "pid") }

func (in *instance) mustRun() error {
	if !controlplane.InUse(in.dir) {
		return fmt.Errorf("cannot reach control plane %q: it does not run (controlplane start)", in.name)
	}
	return nil
}

// run starts the control plane in this process and ends with the context or with the process that
// --while names.
func (in *instance) run(ctx context.Context, out io.Writer) (err error) {
	lock, err := filelock.Try(in.dir + ".lock") // outside of the folder, which is deleted
	if err != nil {
		return err
	}
	if lock == nil || controlplane.InUse(in.dir) {
		return in.runsAlready()
	}
	defer lock.Close()
	if err := os.RemoveAll(in.dir); err != nil {
		return fmt.Errorf("cannot delete old data: %w", err)
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: in.dir, Audit: in.audit})
	if err != nil {
		return err
	}
	defer func() {
		cp.Stop()
		err = errors.Join(err, os.RemoveAll(in.dir))
	}()
	if err := os.WriteFile(in.pidFile(), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return fmt.Errorf("cannot write the process id: %w", err)
	}
	fmt.Fprintf(out, "KUBECONFIG=%s\n%s\n", cp.Kubeconfig(), readyLine)
	for in.whilePID == 0 || syscall.Kill(in.whilePID, 0) == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookInterval):
		}
	}
	return nil
}

func (in *instance) runsAlready() error {
	return fmt.Errorf("control plane %q runs already: choose another --name, or stop it first", in.name)
}

// start runs this program again in the background and returns when the control plane is ready. If
// it runs already, start does nothing, or fails with --new.
func (in *instance) start(ctx context.Context) error {
	if running := controlplane.InUse(in.dir); running && in.isNew {
		return in.runsAlready()
	} else if running {
		fmt.Fprintf(os.Stderr, "controlplane: %q runs already\n", in.name)
		return nil
	}
	if _, err := controlplane.Assets(ctx, os.Stderr); err != nil { // here, where people see the progress
		return err
	}
	began := time.Now()
	log, err := in.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	args := []string{"--name=" + in.name, "run", fmt.Sprintf("--audit=%t", in.audit), fmt.Sprintf("--while=%d", in.whilePID)}
	cmd := exec.Command(self, args...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start in the background: %w", err)
	}
	if !saysReady(out) {
		_ = cmd.Wait()
		content, _ := os.ReadFile(log.Name())
		_ = os.Remove(log.Name())
		return errors.New(strings.TrimPrefix(strings.TrimSpace(string(content)), "controlplane: "))
	}
	if err := os.Rename(log.Name(), in.dir+".log"); err != nil {
		return fmt.Errorf("cannot name the log: %w", err)
	}
	fmt.Fprintf(os.Stderr, "controlplane: %q is ready after %s\n", in.name, time.Since(began).Round(100*time.Millisecond))
	return cmd.Process.Release()
}

// openLog makes the file with what the background process has to say.
func (in *instance) openLog() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(in.dir), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder of control planes: %w", err)
	}
	log, err := os.CreateTemp(filepath.Dir(in.dir), in.name+"-*.log") // two may start at once
	if err != nil {
		return nil, fmt.Errorf("cannot make a log: %w", err)
	}
	return log, nil
}

// saysReady waits for the ready line or the end of the process.
func saysReady(out io.Reader) bool {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == readyLine {
			return true
		}
	}
	return false
}

// stop ends the process of a running control plane and waits until it is gone.
func (in *instance) stop(ctx context.Context) error {
	if !controlplane.InUse(in.dir) {
		fmt.Fprintf(os.Stderr, "controlplane: %q does not run\n", in.name)
		return nil
	}
	content, err := os.ReadFile(in.pidFile())
	if err != nil {
		return fmt.Errorf("cannot tell which process runs control plane %q (still starting?): %w", in.name, err)
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		return fmt.Errorf("cannot read the process id: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for { // run deletes the folder last
		if _, err := os.Stat(in.dir); os.IsNotExist(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for process %d to end: %w", pid, ctx.Err())
		case <-time.After(lookInterval):
		}
	}
}
