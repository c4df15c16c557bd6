// Command runc is a container runtime for docker on machines that lack a capability. A privileged
// container asks for all that the kernel knows, and the real runc does not start it where one is
// missing. This program removes the capabilities that the machine lacks from docker's request, and
// becomes the real runc.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// realRunc is the program that this one becomes.
const realRunc = "runc"

func main() {
	fmt.Fprintln(os.Stderr, "runc:", run(os.Args[1:]))
	os.Exit(1)
}

// run returns only when it could not become the real runc.
func run(args []string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("cannot tell which capabilities there are: %w", err)
	}
	given, err := boundingSet(string(status))
	if err != nil {
		return err
	}
	if path, nested := specFile(args); path != "" {
		if err := narrow(path, nested, given); err != nil {
			return fmt.Errorf("cannot narrow %s: %w", path, err)
		}
	}
	program, err := exec.LookPath(realRunc)
	if err != nil {
		return fmt.Errorf("cannot find the real runc: %w", err)
	}
	return syscall.Exec(program, append([]string{realRunc}, args...), os.Environ())
}

// specFile is the file with what a call asks for, if it starts a process, and where in the file the
// process is.
func specFile(args []string) (path, nested string) {
	command := slices.IndexFunc(args, func(arg string) bool { return arg == "create" || arg == "run" || arg == "exec" })
	if command < 0 {
		return "", ""
	}
	if args[command] == "exec" {
		return valueOf(args[command:], "--process", "-p"), ""
	}
	return filepath.Join(valueOf(args[command:], "--bundle", "-b"), "config.json"), "process"
}

// valueOf is the value of the flag that has one of the names.
func valueOf(args []string, names ...string) string {
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case !slices.Contains(names, name):
		case joined:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// narrow takes from the process that a file describes all capabilities that are not given. What it
// does not know in the file stays as it is.
func narrow(path, nested string, given map[string]bool) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // large numbers stay what they are
	var spec map[string]any
	if err := decoder.Decode(&spec); err != nil {
		return err
	}
	process := spec
	if nested != "" {
		process, _ = spec[nested].(map[string]any)
	}
	sets, _ := process["capabilities"].(map[string]any)
	for name, set := range sets {
		list, _ := set.([]any)
		sets[name] = slices.DeleteFunc(list, func(capability any) bool {
			text, _ := capability.(string)
			return !given[text]
		})
	}
	narrowed, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return os.WriteFile(path, narrowed, 0o600)
}

// names are the capabilities of Linux, by number.
var names = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
	"SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// boundingSet reads from /proc/self/status what any process here may have.
func boundingSet(status string) (map[string]bool, error) {
	for line := range strings.Lines(status) {
		mask, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		var bits uint64
		if _, err := fmt.Sscanf(mask, "%x", &bits); err != nil {
			return nil, fmt.Errorf("cannot read the bounding set: %w", err)
		}
		given := map[string]bool{}
		for number, name := range names {
			given["CAP_"+name] = bits&(1<<number) != 0
		}
		return given, nil
	}
	return nil, errors.New("cannot find the bounding set of this process")
}
