package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A command is a program to run to its end.
type command struct {
	path, dir string
	args, env []string
	stdin     io.Reader
}

// run returns what the program printed. An error has what it complained of.
func (c command) run(ctx context.Context) (string, error) {
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, &out, &complaints
	if err := cmd.Run(); err != nil {
		if wasKilled(err, complaints.String()) && ctx.Err() == nil {
			err = fmt.Errorf("%w: the kernel probably ended it because memory ran out; free some, and try again", err)
		}
		return out.String(), fmt.Errorf("cannot run %s %s: %w\n%s", filepath.Base(c.path), strings.Join(c.args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}

// wasKilled tells whether a program, or one that it ran, was ended by SIGKILL.
func wasKilled(err error, complaints string) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL || strings.Contains(complaints, "signal: killed")
}

// engine is a docker daemon.
type engine struct {
	// host is its address; the machine's usual one when empty.
	host string
}

func (e engine) env() []string {
	if e.host == "" {
		return nil
	}
	return []string{"DOCKER_HOST=" + e.host}
}

// docker runs the client.
func (e engine) docker(ctx context.Context, args ...string) (string, error) {
	return e.dockerWith(ctx, nil, args...)
}

// dockerWith runs the client with what write writes as its input.
func (e engine) dockerWith(ctx context.Context, write func(io.Writer) error, args ...string) (string, error) {
	docker := command{path: "docker", args: args, env: e.env()}
	if write == nil {
		return docker.run(ctx)
	}
	read, written := io.Pipe()
	docker.stdin = read
	go func() { written.CloseWithError(write(written)) }()
	defer func() { _ = read.Close() }()
	return docker.run(ctx)
}

// answers tells whether the daemon is there.
func (e engine) answers(ctx context.Context) bool {
	_, err := e.docker(ctx, "info")
	return err == nil
}
