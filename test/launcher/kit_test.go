package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/test/hypervisor"
)

// patience is how long anything may take on a busy machine.
const patience = 3 * time.Minute

const user = v1alpha1.LauncherUser

// inPod is where it is in a pod.
const inPod = "/run/bin/virtwright-launcher"

// built is the launcher, built at first use in a folder that every user can read.
var built = sync.OnceValues(func() (program string, err error) {
	program = filepath.Join(folder, "virtwright-launcher")
	build := exec.Command("go", "build", "-o", program, "./cmd/virtwright-launcher")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the launcher: %w\n%s", err, out)
	}
	return program, nil
})

// folder has the launcher.
var folder string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if folder, err = os.MkdirTemp("", "virtwright-launcher-"); err == nil {
			err = os.Chmod(folder, 0o755)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(folder) }()
		return m.Run()
	}())
}

// A pod is the folders that a kubelet would mount, and the launcher in them.
type pod struct {
	*testing.T
	dir     string
	program string
	input   *domain.Input
	claims  map[string]podspec.Claim
	console hypervisor.Console
	cmd     *exec.Cmd
	ended   chan struct{}
}

// sandbox makes the pod's file system and network and runs the program as the pod's user: $1 is the
// folder of the pod, $2 the program.
const sandbox = `set -e
mount -t tmpfs none /var/lib
mount -t tmpfs none /run
mkdir -p /var/lib/virtwright /run/virtwright
mount --rbind $1/virtwright /var/lib/virtwright
mount --bind $1/run /run/virtwright
mount --bind $1/passwd /etc/passwd
mount --bind $1/group /etc/group
mount --bind $1/resolv.conf /etc/resolv.conf
mkdir /run/bin
mount --bind $(dirname $2) /run/bin
touch /run/termination-log
mount --bind $1/termination /run/termination-log
mount -o remount,ro,bind /
mount -t tmpfs -o mode=1777 none /tmp
ip link set lo up
echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
shift 2
exec setpriv --pdeathsig=KILL --reuid=107 --regid=107 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"`

// newPod is a pod for a VMI whose spec is YAML.
func newPod(t *testing.T, spec string) *pod {
	t.Helper()
	hypervisor.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a pod")
	}
	program, err := built()
	must(t, err)
	dir := t.TempDir()
	p := &pod{T: t, dir: dir, program: program, console: hypervisor.Console(filepath.Join(dir, "console")), input: &domain.Input{
		VMI:     &kubevirtv1.VirtualMachineInstance{},
		Backend: &v1alpha1.BackendSettings{SoftwareEmulation: v1alpha1.SoftwareEmulationAllow},
	}}
	p.input.VMI.Name, p.input.VMI.Namespace, p.input.VMI.UID = "web", "shop", "6c5b8e30-0f6a-4a59-8b21-94d4f0c8b1aa"
	must(t, yaml.UnmarshalStrict([]byte(spec), &p.input.VMI.Spec))
	p.profiles()
	p.write("passwd", "root:x:0:0::/:/bin/sh\nqemu:x:107:107::/:/bin/false\n")
	p.write("group", "root:x:0:\nqemu:x:107:\n") // as in the image; libvirt looks up its group
	p.write("resolv.conf", "nameserver 10.96.0.10\nsearch shop.svc.cluster.local svc.cluster.local\n")
	for _, folder := range []string{"run", "virtwright/volumes", "virtwright/kernel", "virtwright/tools", "virtwright/cloud-init"} {
		must(t, os.MkdirAll(p.path(folder), 0o755))
	}
	for i := range p.input.VMI.Spec.Volumes {
		must(t, os.MkdirAll(p.volume(p.input.VMI.Spec.Volumes[i].Name), 0o755))
	}
	guest, err := hypervisor.BuildGuest(t.Context(), os.Stderr)
	must(t, err)
	for name, from := range map[string]string{"vmlinuz": guest.Kernel, "initrd.img": guest.Initrd} {
		content, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(p.path("virtwright/kernel/"+name), content, 0o644))
	}
	return p
}

// profiles puts the settings of profiles into the input, as the controller does.
func (p *pod) profiles(backend ...v1alpha1.BackendProfile) {
	compiled, errs := domain.CompileProfiles(nil, append(backend, v1alpha1.BackendProfile{
		Spec: v1alpha1.BackendProfileSpec{BackendSettings: v1alpha1.BackendSettings{SoftwareEmulation: v1alpha1.SoftwareEmulationAllow}},
	}))
	if len(errs) > 0 {
		p.Fatal(errs.ToAggregate())
	}
	p.input.Frontend, p.input.FrontendProfiles = compiled.Frontend(p.input.VMI, nil)
	p.input.Backend, p.input.BackendProfiles = compiled.Backend(p.input.VMI, nil)
}

func (p *pod) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pod) volume(name string) string { return p.path("virtwright/volumes/" + name) }

func (p *pod) write(name, content string) {
	p.Helper()
	must(p.T, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
	must(p.T, os.WriteFile(p.path(name), []byte(content), 0o644))
}

// start runs the launcher with the input that the controller gives to its pod.
func (p *pod) start() {
	p.Helper()
	made, err := podspec.New(&podspec.Request{
		VMI: p.input.VMI, Frontend: p.input.Frontend, Backend: p.input.Backend, Claims: p.claims,
	}, &podspec.Settings{})
	must(p.T, err)
	compute := &made.Spec.Containers[0]
	for i := range compute.VolumeMounts {
		below, ok := strings.CutPrefix(compute.VolumeMounts[i].MountPath, "/var/lib/")
		if _, err := os.Stat(p.path(below)); ok && err != nil {
			p.Errorf("the pod has a mount that the test has not: %v", err)
		}
	}
	p.startInput(strings.ReplaceAll(compute.Env[0].Value, "$$", "$")) // as the kubelet does
}

func (p *pod) startInput(input string) {
	p.Helper()
	p.write("termination", "")
	for _, folder := range []string{"run", "virtwright/volumes", "termination"} {
		must(p.T, filepath.Walk(p.path(folder), func(name string, _ os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(name, user, user)
		}))
	}
	output, err := os.Create(string(p.console))
	must(p.T, err)
	defer output.Close()
	messages, err := os.Create(p.path("stderr"))
	must(p.T, err)
	defer messages.Close()
	p.cmd = exec.Command("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", sandbox, "sh", p.dir, p.program, inPod, "run", "--termination-log=/run/termination-log")
	p.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", v1alpha1.EnvLauncherInput + "=" + input}
	p.cmd.Stdout, p.cmd.Stderr = output, messages
	must(p.T, p.cmd.Start())
	p.ended = make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	p.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if text, _ := os.ReadFile(p.path("stderr")); p.Failed() {
			p.Logf("the launcher wrote:\n%s", text)
		}
	})
}

// first is the process ID of the pod's first process.
func (p *pod) first() int {
	p.Helper()
	var pid int
	p.eventually("the pod has a process", func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	})
	return pid
}

// exec is a command in the running pod, as the pod's user.
func (p *pod) exec(args ...string) *exec.Cmd {
	p.Helper()
	return exec.Command("nsenter", append([]string{
		"--target", fmt.Sprint(p.first()), "--mount", "--pid", "--net",
		"setpriv", "--reuid=107", "--regid=107", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all",
	}, args...)...)
}

// control sends an action and returns the first line of the answer.
func (p *pod) control(action v1alpha1.LauncherAction) string {
	p.Helper()
	cmd := p.exec(inPod, "control")
	cmd.Stdin = strings.NewReader(string(action) + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("%s: %v: %s", action, err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// probe is the message of a probe that fails; empty for one that succeeds.
func (p *pod) probe(args ...string) string {
	p.Helper()
	out, err := p.exec(append([]string{inPod, "probe"}, args...)...).CombinedOutput()
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "virtwright: ")
}

// A terminal is a client of the console.
type terminal struct {
	io.WriteCloser
	output string
	done   chan struct{}
}

func (t *terminal) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// terminal attaches to the console.
func (p *pod) terminal() *terminal {
	p.Helper()
	out, err := os.CreateTemp(p.dir, "terminal-")
	must(p.T, err)
	defer out.Close()
	cmd := p.exec(inPod, "control")
	cmd.Stdout = out
	in, err := cmd.StdinPipe()
	must(p.T, err)
	must(p.T, cmd.Start())
	t := &terminal{in, out.Name(), make(chan struct{})}
	go func() { _ = cmd.Wait(); close(t.done) }()
	p.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); <-t.done })
	_, err = io.WriteString(in, "console\n")
	must(p.T, err)
	p.eventually("the console is attached", func() error {
		text, err := os.ReadFile(t.output)
		if err == nil && !strings.HasPrefix(string(text), "ok\n") {
			err = fmt.Errorf("the answer is %q", text)
		}
		return err
	})
	return t
}

// word types a word on the console and waits for the event that it causes.
func (p *pod) word(word, event string) {
	p.Helper()
	closed := p.enter(word)
	p.event(event)
	closed()
}

// enter writes a word to the console. It returns a function that closes it.
func (p *pod) enter(word string) (closed func()) {
	p.Helper()
	t := p.terminal()
	_, err := io.WriteString(t, word+"\n")
	must(p.T, err)
	return func() { _ = t.Close() } // it is closed if the word has ended the guest
}

func (p *pod) event(event string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	must(p.T, p.console.Event(ctx, event))
}

// boots waits until the guest has described its hardware.
func (p *pod) boots() hypervisor.Facts {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	facts, err := p.console.Ready(ctx)
	must(p.T, err)
	return facts
}

// terminate does what the kubelet does when the pod is deleted.
func (p *pod) terminate() { must(p.T, syscall.Kill(p.first(), syscall.SIGTERM)) }

// ends waits for the launcher's end and checks the exit code and the termination message.
func (p *pod) ends(code int, reason v1alpha1.GuestEndReason, words string) {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Fatalf("the launcher does not end")
	}
	text, err := os.ReadFile(p.path("termination"))
	must(p.T, err)
	var end v1alpha1.GuestEnd
	if err := json.Unmarshal(text, &end); err != nil || end.Reason != reason || !strings.Contains(end.Message, words) {
		p.Errorf("the termination message is %s, want %s and %q: %v", text, reason, words, err)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.Errorf("the exit code is %d, want %d", got, code)
	}
}

// qemu is the process ID of QEMU, seen from outside.
func (p *pod) qemu() int { return p.process("qemu-system-") }

// process is the process ID of the first one of a name.
func (p *pod) process(name string) int {
	p.Helper()
	all := p.processes(name)
	if len(all) == 0 {
		p.Fatalf("the pod has no process %s", name)
	}
	return all[0]
}

// processes are those of the pod whose program's name begins so.
func (p *pod) processes(name string) []int {
	p.Helper()
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.first()))
	must(p.T, err)
	var out []int
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		ns, _ := os.Readlink(proc + "/ns/pid")
		command, _ := os.ReadFile(proc + "/cmdline")
		first, _, _ := strings.Cut(string(command), "\x00")
		if ns == namespace && strings.HasPrefix(filepath.Base(first), name) {
			pid, err := strconv.Atoi(filepath.Base(proc))
			must(p.T, err)
			out = append(out, pid)
		}
	}
	return out
}

// memory logs the memory of the pod's processes.
func (p *pod) memory() {
	p.Helper()
	for _, pid := range p.processes("") {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		must(p.T, err)
		var text []string
		for line := range strings.Lines(string(status)) {
			if name, _, _ := strings.Cut(line, ":"); name == "Name" || name == "VmRSS" || name == "RssAnon" {
				text = append(text, strings.Fields(line)...)
			}
		}
		p.Log(strings.Join(text, " "))
	}
}

func (p *pod) eventually(what string, is func() error) {
	p.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("never %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
