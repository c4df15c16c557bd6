package kind

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// stateful is a VM with a claim, a container disk and a secret.
const stateful = `{
  "domain": {"devices": {"disks": [{"name": "data", "disk": {"bus": "virtio"}}, {"name": "image", "disk": {"bus": "virtio"}}, {"name": "password", "disk": {"bus": "virtio"}}]}},
  "volumes": [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "image", "containerDisk": {"image": "docker.io/virtwright/guest:test", "imagePullPolicy": "IfNotPresent"}},
    {"name": "password", "secret": {"secretName": "password"}}]}`

// storage is a volume on a node, made by hand, and what claims it.
const storage = `
{apiVersion: v1, kind: PersistentVolume, metadata: {name: guest-data},
  spec: {capacity: {storage: 32Mi}, accessModes: [ReadWriteOnce], storageClassName: standard, persistentVolumeReclaimPolicy: Retain,
    local: {path: /var/guest-data},
    nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: guests}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 32Mi}}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: guests}, stringData: {word: swordfish}}
`

// service leads to the guest of VM web.
const service = `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: guests},
  spec: {selector: {vmi.kubevirt.io/id: web}, ports: [{port: 80, targetPort: 8080}]}}`

// enter types a line on the console of a guest by way of its pod, as the manager does.
func enter(name, line string) {
	GinkgoHelper()
	_, _, err := run("kubectl", "console\n"+line+"\n", "exec", "--stdin", "--namespace", guests, "--container=compute", launcherOf(name),
		"--", "/usr/bin/virtwright-launcher", "control")
	Expect(err).NotTo(HaveOccurred())
}

// disk is the name that a guest has for its disk of that many bytes.
func disk(name string, bytes int) string {
	GinkgoHelper()
	found := regexp.MustCompile(fmt.Sprintf(`GUEST block/(\w+)/bytes=%d\r?\n`, bytes)).FindStringSubmatch(console(name))
	Expect(found).NotTo(BeNil(), console(name))
	return found[1]
}

// says waits until the console of a guest has a text.
func says(name, text string) {
	GinkgoHelper()
	Eventually(func() string { return console(name) }).Should(ContainSubstring(text))
}

// status waits until a VM has a printable status.
func status(name, want string) {
	GinkgoHelper()
	Eventually(func() string { return field(guests+"/vm/"+name, ".status.printableStatus") }).WithTimeout(3 * time.Minute).Should(Equal(want))
}

// again waits until a VM runs a VMI of another UID.
func again(name, uid string) {
	GinkgoHelper()
	Eventually(func() string { return vmi(name, ".metadata.uid") }).WithTimeout(3 * time.Minute).ShouldNot(Or(BeEmpty(), Equal(uid)))
	awaitGuest(name)
}

var _ = Describe("A VMI in its pod", Ordered, func() {
	BeforeAll(func() {
		Expect(here.cluster.Load(here.ctx, archives("launcher", "guest")...)).To(Succeed())
		helm("uninstall", release, "--ignore-not-found", "--wait") // of a run that failed
		helm("install", release, chart, "--set=certs.mode=self-signed", "--create-namespace", "--wait", "--timeout=3m")
		worker := here.cluster.Nodes()[1]
		_, err := here.cluster.Exec(here.ctx, worker, "sh", "-c", "rm -rf /var/guest-data && mkdir /var/guest-data")
		Expect(err).NotTo(HaveOccurred())
		create(guestFiles)
		kubectl("wait", "virtualmachinepreset/guest", "--namespace", guests, "--for=condition=Ready", "--timeout=30s")
		create(fmt.Sprintf(storage, worker))
		create(client("client"))
		DeferCleanup(func() {
			_, _, _ = run("kubectl", "", "delete", "vm,vmi", "--all", "--namespace", guests, "--timeout=2m") // what a story left
			kubectl("delete", "namespace", guests, clients, "--timeout=2m")
			kubectl("delete", "pv/guest-data", "backendprofile/emulation")
			helm("uninstall", release, "--wait")
		})
	})

	It("boots a VM that has only a name, in a restricted namespace with a quota and a LimitRange", func() {
		create(service)
		Expect(create(guest("web", ""))).NotTo(ContainSubstring("Warning"))
		Expect(awaitGuest("web")).To(MatchRegexp(`GUEST cpu/online=1\r?\n`), "prints its hardware")
		status("web", "Running")
		Expect(vmi("web", ".status.conditions[?(@.type=='Ready')].status")).To(Equal("True"))
		pod := guests + "/pod/" + launcherOf("web")
		Expect(vmi("web", ".status.interfaces[0].ipAddress")).To(Equal(field(pod, ".status.podIP")))
		Expect(field(pod, ".metadata.ownerReferences[0].uid")).To(Equal(vmi("web", ".metadata.uid")))
	})

	It("answers HTTP at its Service, to another pod and to another guest", func() {
		awaitClient("client")
		Eventually(func() (string, error) { return busybox("client", "wget", "-q", "-O", "-", "http://web.guests.svc/") }).Should(Equal(page))
		create(guest("caller", ""))
		awaitGuest("caller")
		enter("caller", "get http://web.guests.svc.cluster.local/")
		says("caller", "GUEST event=got "+page)
		enter("caller", "get http://web/")
		Eventually(func() int { return strings.Count(console("caller"), "GUEST event=got "+page) }).Should(Equal(2), "the pod's search domains reach the guest")
	})

	It("reads a secret and a container disk, and writes a claim that outlives its guest", func() {
		create(guest("stateful", stateful))
		Expect(awaitGuest("stateful")).To(ContainSubstring("/word="+base64.StdEncoding.EncodeToString([]byte("swordfish"))), "the secret")
		enter("stateful", "read "+disk("stateful", 1<<20))
		says("stateful", "GUEST event=read hello from the container disk")
		enter("stateful", "write "+disk("stateful", 32<<20)+" kept for later")
		says("stateful", "GUEST event=wrote kept for later")
		Expect(onNode("stateful", "head -n 1 /var/guest-data/disk.img")).To(HavePrefix("kept for later"))
		uid := vmi("stateful", ".metadata.uid")
		verb(guests, "stateful", "restart")
		again("stateful", uid)
		enter("stateful", "read "+disk("stateful", 32<<20))
		says("stateful", "GUEST event=read kept for later")
	})

	It("stops by the power button, and starts again", func() {
		log := follow("web")
		verb(guests, "web", "stop")
		Eventually(log.String).Should(ContainSubstring("GUEST event=powerbutton"))
		status("web", "Stopped")
		Expect(vmi("web", ".metadata.uid")).To(BeEmpty())
		verb(guests, "web", "start")
		awaitGuest("web")
	})

	It("comes back when QEMU is killed, by run strategy Always", func() {
		uid := vmi("web", ".metadata.uid")
		onNode("web", "kill -KILL "+process("web"))
		again("web", uid)
		Expect(field(guests+"/vm/web", ".spec.runStrategy")).To(Equal("Always"))
	})

	It("moves to the other node when its node is drained, with an empty disk", func() {
		create(guest("nomad", `{"domain": {"devices": {"disks": [{"name": "scratch", "disk": {"bus": "virtio"}}]}},
			"volumes": [{"name": "scratch", "emptyDisk": {"capacity": "16Mi"}}]}`))
		awaitGuest("nomad")
		enter("nomad", "write "+disk("nomad", 16<<20)+" here")
		says("nomad", "GUEST event=wrote here")
		node, uid := vmi("nomad", ".status.nodeName"), vmi("nomad", ".metadata.uid")
		DeferCleanup(func() { kubectl("uncordon", node) })
		kubectl("drain", node, "--pod-selector=kubevirt.io=virt-launcher,vmi.kubevirt.io/id=nomad", "--delete-emptydir-data", "--timeout=2m")
		again("nomad", uid)
		Expect(vmi("nomad", ".status.nodeName")).NotTo(Equal(node))
		enter("nomad", "read "+disk("nomad", 16<<20))
		says("nomad", "GUEST event=read ")
		Expect(console("nomad")).NotTo(ContainSubstring("read here"))
	})

	commands()

	confinement()

	costs()

	It("leaves nothing when VMs are deleted", func() {
		kubectl("delete", "vm", "--all", "--namespace", guests, "--timeout=2m")
		Eventually(func() []string { return names("vm,vmi,pods,poddisruptionbudgets", "--namespace", guests) }).WithTimeout(2 * time.Minute).Should(BeEmpty())
		for _, node := range here.cluster.Nodes() {
			out, err := here.cluster.Exec(here.ctx, node, "sh", "-c", "pgrep -a '^(qemu|libvirtd|swtpm|virtwright-laun)' || true")
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(BeEmpty())
		}
	})
})
