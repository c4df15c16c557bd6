package kind

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// rounds are how often a guest is started to find the median.
	rounds = 5
	// slowest is how much longer a VM may take to its guest's console than QEMU started by hand.
	slowest = 3
	// idleVariable is how many VMIs idle while writes are counted (idleDefault).
	idleVariable = "IDLE_VMIS"
	idleDefault  = 6
	// idleTime is for how long writes are counted.
	idleTime = 30 * time.Second
)

// sameGuest picks from a command line of QEMU what makes a guest fast or slow.
func sameGuest(line []string) []string {
	var args []string
	for i, arg := range line[:len(line)-1] {
		if slices.Contains([]string{"-machine", "-accel", "-cpu", "-m", "-smp"}, arg) {
			args = append(args, arg, strings.ReplaceAll(line[i+1], ",memory-backend=pc.ram", ""))
		}
	}
	return args
}

// byHand starts QEMU in a pod of the launcher's image and returns how long its guest takes to be
// ready.
func byHand(args []string) time.Duration {
	GinkgoHelper()
	began := time.Now()
	command := append([]string{"exec", "--stdin", "--namespace", clients, "hand", "--", "/usr/bin/qemu-system-x86_64",
		"-nographic", "-no-reboot", "-kernel", "/files/boot/vmlinuz", "-initrd", "/files/boot/initrd.img", "-append", "console=ttyS0 quiet panic=1 cryptomgr.notests",
		"-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n"}, args...)
	cmd := exec.CommandContext(here.ctx, filepath.Join(here.tools, "kubectl"), command...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+here.cluster.Kubeconfig(), "KUBERC=off")
	out, complaints := &follower{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, complaints
	in, err := cmd.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed())
	Eventually(out.String).WithTimeout(2*time.Minute).WithPolling(20*time.Millisecond).Should(ContainSubstring(ready), complaints.String)
	took := time.Since(began)
	_, err = io.WriteString(in, "poweroff\n")
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Wait()).To(Succeed(), complaints.String)
	return took
}

// byVM creates a VM and returns how long its guest takes to be ready.
func byVM(name string) time.Duration {
	GinkgoHelper()
	began := time.Now()
	create(guest(name, ""))
	Eventually(func() string { return console(name) }).WithTimeout(2 * time.Minute).WithPolling(20 * time.Millisecond).Should(ContainSubstring(ready))
	took := time.Since(began)
	kubectl("delete", "vm", name, "--namespace", guests, "--timeout=1m")
	return took
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

// written matches what the API server counts for requests that write VMs and VMIs.
var written = regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*resource="(virtualmachines|virtualmachineinstances)"[^}]*verb="(?:POST|PUT|PATCH|APPLY|DELETE)"[^}]*\} (\d+)`)

// writes are how many requests have written VMs and VMIs, by resource, and the version of each pod
// of a guest.
func writes() map[string]int {
	GinkgoHelper()
	counts := map[string]int{}
	const versions = "{range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}"
	for pod := range strings.FieldsSeq(kubectl("get", "pods", "--namespace", guests, "-o", "jsonpath="+versions)) {
		name, version, _ := strings.Cut(pod, "=")
		number, err := strconv.Atoi(version)
		Expect(err).NotTo(HaveOccurred())
		counts[name] = number
	}
	for _, found := range written.FindAllStringSubmatch(kubectl("get", "--raw", "/metrics"), -1) {
		count, err := strconv.Atoi(found[2])
		Expect(err).NotTo(HaveOccurred())
		counts[found[1]] += count
	}
	return counts
}

// costs tells what a VM costs beside its guest.
func costs() {
	It("reaches the console within three times as long as QEMU that is started by hand", func() {
		pod := guests + "/pod/" + launcherOf("web")
		create(clientOf("hand", field(pod, ".spec.containers[0].image"), ""))
		awaitClient("hand")
		args := sameGuest(strings.Split(onNode("web", `tr '\0' '\n' </proc/`+process("web")+"/cmdline"), "\n"))
		Expect(args).To(HaveLen(10))
		var hand, vm []time.Duration
		for i := range rounds {
			hand = append(hand, byHand(args))
			vm = append(vm, byVM(fmt.Sprintf("timed-%d", i)))
		}
		AddReportEntry("console", fmt.Sprintf("medians of %d: by hand %s, VM %s", rounds, median(hand), median(vm)))
		Expect(median(vm)).To(BeNumerically("<=", slowest*median(hand)))
	})

	It("has a pod of a few megabytes beside QEMU", func() {
		pod := guests + "/pod/" + launcherOf("web")
		const sum = `for pid in $(pgrep -f '%s'); do grep -q %s /proc/$pid/cgroup && cat /proc/$pid/status; done | awk '/^RssAnon/ {n += $2} END {print n}'`
		uid := strings.ReplaceAll(field(pod, ".metadata.uid"), "-", "_")
		qemu := onNode("web", fmt.Sprintf(sum, "^/usr/bin/qemu-system", uid))
		rest := onNode("web", fmt.Sprintf(sum, "^libvirtd|^/usr/bin/virtwright-launcher", uid))
		AddReportEntry("memory", fmt.Sprintf("anonymous, for a guest of 192 MiB: QEMU %s kB, launcher and libvirt %s kB; the pod's limit is %s",
			qemu, rest, field(pod, ".spec.containers[0].resources.limits.memory")))
		Expect(strconv.Atoi(rest)).To(And(BeNumerically(">", 0), BeNumerically("<", 64<<10)))
	})

	It("writes nothing while guests idle", func() {
		count := idleDefault
		if set, err := strconv.Atoi(os.Getenv(idleVariable)); err == nil {
			count = set
		}
		for i := range count {
			create(guest(fmt.Sprintf("idle-%d", i), `{"domain": {"memory": {"guest": "128Mi"}}}`))
		}
		for i := range count {
			awaitGuest(fmt.Sprintf("idle-%d", i))
			status(fmt.Sprintf("idle-%d", i), "Running")
		}
		before := writes()
		Eventually(func() bool { // until the last of the starts is written
			last := before
			before = writes()
			return fmt.Sprint(last) == fmt.Sprint(before)
		}).WithPolling(15 * time.Second).Should(BeTrue())
		time.Sleep(idleTime)
		after := writes()
		AddReportEntry("writes", fmt.Sprintf("%d VMIs for %s", len(names("vmi", "--namespace", guests)), idleTime))
		Expect(after).To(Equal(before))
	})
}
