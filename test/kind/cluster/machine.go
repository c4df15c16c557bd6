package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// packages are the Debian packages that the targets need, for the images too, by a command or a
// file of each.
var packages = []struct{ command, name string }{
	{"dockerd", "docker.io"},
	{"debootstrap", "debootstrap"},
	{"mmdebstrap", "mmdebstrap"},
	{"/usr/share/doc/busybox-static", "busybox-static"}, // another busybox needs libraries
}

// checkMachine installs missing packages, or returns an error that names them.
func (w *workshop) checkMachine(ctx context.Context) error {
	if os.Getenv(imageVariable) != "" {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("cannot build a node image without being root (or set %s where images can be pulled)", imageVariable)
	}
	var missing []string
	for _, needed := range packages {
		_, noCommand := exec.LookPath(needed.command)
		if _, noFile := os.Stat(needed.command); noCommand != nil && noFile != nil {
			missing = append(missing, needed.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	w.say("installing the packages %s", strings.Join(missing, ", "))
	install := append([]string{"install", "--yes", "--no-install-recommends"}, missing...)
	for _, args := range [][]string{{"update"}, install} {
		// In runlevel 1 the daemon that comes with a package is not started.
		apt := command{path: "apt-get", args: args, env: []string{"DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"}}
		if _, err := apt.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// chooseEngine picks the machine's docker where it can run nodes, else it starts one that can.
func (c *Cluster) chooseEngine(ctx context.Context) error {
	if err := c.findEngine(ctx); err != nil {
		return err
	}
	if c.engine.answers(ctx) {
		return nil
	}
	if os.Getenv(imageVariable) != "" {
		return errors.New("cannot reach docker: start it, or set DOCKER_HOST")
	}
	runtime, err := c.program(ctx, runc)
	if err != nil {
		return err
	}
	c.engine = c.daemonEngine()
	return c.startDaemon(ctx, runtime)
}

// findEngine finds the docker that clusters of ours are on, or are to be on.
func (c *Cluster) findEngine(ctx context.Context) error {
	if host, err := os.ReadFile(c.engineFile()); err == nil {
		c.engine = engine{host: string(host)}
		return nil
	}
	if os.Getenv(imageVariable) != "" {
		return nil
	}
	if !isThere(c.daemonDir()) {
		able, err := allCapabilities()
		if err != nil {
			return err
		}
		if able && c.engine.answers(ctx) {
			return nil
		}
	}
	c.engine = c.daemonEngine()
	return nil
}

// allCapabilities tells whether privileged containers can be had: they ask for every capability
// that the kernel knows, and some machines have not all.
func allCapabilities() (bool, error) {
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return false, fmt.Errorf("cannot tell which capabilities there are: %w", err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, fmt.Errorf("cannot tell which capabilities there are: %w", err)
	}
	var highest int
	var given uint64
	_, bounding, _ := strings.Cut(string(status), "CapBnd:")
	_, errLast := fmt.Sscan(string(last), &highest)
	_, errGiven := fmt.Sscanf(bounding, "%x", &given)
	if err := errors.Join(errLast, errGiven); err != nil {
		return false, fmt.Errorf("cannot read which capabilities there are: %w", err)
	}
	all := uint64(1)<<(highest+1) - 1
	return given&all == all, nil
}
