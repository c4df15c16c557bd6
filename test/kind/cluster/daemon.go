package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// bridge is a network device of the daemon's own: with none it would delete the one of the
	// machine's docker.
	bridge        = "vw-kind0"
	bridgeAddress = "10.88.0.1/24"
	// networks are what it makes networks from, apart from those of the machine's docker.
	networks = "10.89.0.0/16"
	// cgroup is the parent of its containers.
	cgroup = "/virtwright-kind"
	// daemonTimeout bounds the waits for the daemon to start and to end.
	daemonTimeout = time.Minute
	pollInterval  = 200 * time.Millisecond
)

// daemonDir is there while our daemon is.
func (w *workshop) daemonDir() string { return filepath.Join(w.cache, "run", ".docker") }

func (w *workshop) daemonEngine() engine {
	return engine{host: "unix://" + filepath.Join(w.daemonDir(), "docker.sock")}
}

// startDaemon starts a docker daemon of our own beside the machine's: with another runtime, state
// of its own, and without a hand on the machine's firewall and settings.
func (w *workshop) startDaemon(ctx context.Context, runtime string) error {
	w.say("starting a docker daemon of our own: the machine's is not there, or cannot run privileged containers")
	dir := w.daemonDir()
	if err := w.clearDaemon(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the daemon's folder: %w", err)
	}
	config, err := json.Marshal(map[string]any{
		"runtimes": map[string]any{"narrow": map[string]any{"path": runtime}}, "default-runtime": "narrow",
		"default-cgroupns-mode": "private", "cgroup-parent": cgroup,
		"default-address-pools": []any{map[string]any{"base": networks, "size": 24}},
		"data-root":             filepath.Join(w.cache, "docker"), "exec-root": filepath.Join(dir, "exec"), "pidfile": w.pidFile(),
		"hosts": []string{w.daemonEngine().host}, "bridge": bridge, "iptables": false, "ip6tables": false, "ip-forward": false,
	})
	if err != nil {
		return fmt.Errorf("cannot configure the daemon: %w", err)
	}
	path := filepath.Join(dir, "daemon.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return fmt.Errorf("cannot configure the daemon: %w", err)
	}
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"}, {"addr", "add", bridgeAddress, "dev", bridge}, {"link", "set", bridge, "up"},
	} {
		if _, err := (command{path: "ip", args: args}).run(ctx); err != nil {
			return err
		}
	}
	return w.spawnDaemon(ctx, path)
}

// spawnDaemon leaves the daemon running when this process ends.
func (w *workshop) spawnDaemon(ctx context.Context, config string) error {
	log, err := os.Create(filepath.Join(w.daemonDir(), "log"))
	if err != nil {
		return fmt.Errorf("cannot make the daemon's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command("dockerd", "--config-file", config)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start dockerd: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says more
		close(ended)
	}()
	deadline := time.After(daemonTimeout)
	for !w.daemonEngine().answers(ctx) {
		select {
		case <-ended:
		case <-deadline:
		case <-time.After(pollInterval):
			continue
		}
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("cannot wait for dockerd to answer; the end of its log:\n%s", said[max(0, len(said)-2000):])
	}
	return nil
}

// stopDaemon ends our daemon, if there is one and no cluster is on it.
func (c *Cluster) stopDaemon(ctx context.Context) error {
	if c.engine != c.daemonEngine() {
		return nil
	}
	if c.engine.answers(ctx) {
		clusters, err := c.kind(ctx, "get", "clusters", "--quiet")
		if err != nil || strings.TrimSpace(clusters) != "" {
			return err
		}
		_, _ = c.engine.docker(ctx, "network", "rm", "kind") // there is none where no cluster has been
	}
	return c.clearDaemon(ctx)
}

// clearDaemon ends our daemon and takes away what it leaves: the bridge and the cgroups.
func (w *workshop) clearDaemon(ctx context.Context) error {
	if err := w.endDaemon(ctx); err != nil {
		return err
	}
	if isThere("/sys/class/net/" + bridge) {
		if _, err := (command{path: "ip", args: []string{"link", "delete", bridge}}).run(ctx); err != nil {
			return err
		}
	}
	if err := w.endOrphans(ctx); err != nil {
		return err
	}
	if err := errors.Join(removeCgroups(), w.unmount(), os.RemoveAll(w.daemonDir())); err != nil {
		return fmt.Errorf("cannot clear up after dockerd: %w", err)
	}
	return nil
}

// endOrphans ends the containers and their shims that a killed daemon has left.
func (w *workshop) endOrphans(ctx context.Context) error {
	var orphans []int
	err := untilTrue(ctx, func() bool {
		orphans = w.orphans()
		for _, pid := range orphans {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		return len(orphans) == 0
	})
	if err != nil {
		return fmt.Errorf("cannot end the processes %v, which a killed dockerd left: %w", orphans, err)
	}
	return nil
}

// untilTrue waits until a condition is true, at most daemonTimeout.
func untilTrue(ctx context.Context, condition func() bool) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, daemonTimeout, true, func(context.Context) (bool, error) { return condition(), nil })
}

// orphans are the processes in the daemon's cgroups, and those that name its folder.
func (w *workshop) orphans() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		arguments, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline")) // it may have ended
		cgroups, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cgroup"))
		if strings.Contains(string(arguments), w.daemonDir()) || strings.Contains(string(cgroups), ":"+cgroup+"/") {
			out = append(out, pid)
		}
	}
	return out
}

// unmount unmounts what a killed daemon has left mounted, the innermost first.
func (w *workshop) unmount() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var failed error
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], w.daemonDir()+"/") {
			failed = errors.Join(failed, syscall.Unmount(fields[4], 0))
		}
	}
	return failed
}

func (w *workshop) pidFile() string { return filepath.Join(w.daemonDir(), "pid") }

// endDaemon ends the process of our daemon and waits until it is gone.
func (w *workshop) endDaemon(ctx context.Context) error {
	pid, runs := w.daemonProcess()
	if !runs {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot end dockerd, process %d: %w", pid, err)
	}
	err := untilTrue(ctx, func() bool {
		_, runs := w.daemonProcess()
		return !runs
	})
	if err != nil {
		return fmt.Errorf("cannot wait for dockerd, process %d, to end: %w", pid, err)
	}
	return nil
}

// daemonProcess is the process of our daemon, if it runs: a process that has got its number since
// is another.
func (w *workshop) daemonProcess() (pid int, runs bool) {
	content, err := os.ReadFile(w.pidFile())
	if err != nil {
		return 0, false
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(content))); err != nil {
		return 0, false
	}
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return pid, err == nil && strings.Contains(string(arguments), w.daemonDir())
}

// removeCgroups removes the daemon's part of every hierarchy, the innermost cgroups first.
func removeCgroups() error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*" + cgroup)
	if err != nil {
		return err
	}
	if unified := "/sys/fs/cgroup" + cgroup; isThere(unified) {
		roots = append(roots, unified)
	}
	var failed error
	for _, root := range roots {
		var dirs []string
		failed = errors.Join(failed, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		}))
		for _, dir := range slices.Backward(dirs) {
			failed = errors.Join(failed, os.Remove(dir))
		}
	}
	return failed
}
