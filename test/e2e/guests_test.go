package e2e

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	"github.com/gorilla/websocket"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// launcherControl is what the manager executes in a pod, before the action.
const launcherControl = "virt-launcher-web compute /usr/bin/virtwright-launcher control "

// A terminal is a program with open input.
type terminal struct {
	*commandLine
	in io.WriteCloser
}

// terminal begins a program that has the cluster of the story.
func (s *story) terminal(program string, args ...string) *terminal {
	GinkgoHelper()
	run := &commandLine{cmd: exec.CommandContext(here.ctx, program, args...)}
	run.cmd.Env = append(os.Environ(), "KUBECONFIG="+here.kubeconfig)
	run.cmd.Stdout, run.cmd.Stderr = &run.out, &run.errs
	in, err := run.cmd.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(run.cmd.Start()).To(Succeed())
	return &terminal{run, in}
}

func (t *terminal) types(text string) {
	GinkgoHelper()
	_, err := io.WriteString(t.in, text)
	Expect(err).NotTo(HaveOccurred())
}

func (t *terminal) shows() string { return t.out.tail(1 << 20) }

// socket connects to a device of a VMI as browsers do; the answer is that of a rejection.
func (s *story) socket(user, name, device string) (*websocket.Conn, int, string) {
	GinkgoHelper()
	config := rest.CopyConfig(here.config)
	secure, err := rest.TLSConfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	to, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	dialer := &websocket.Dialer{TLSClientConfig: secure, Subprotocols: []string{"plain.kubevirt.io"}}
	headers := http.Header{}
	if config.BearerToken != "" {
		headers.Set("Authorization", "Bearer "+config.BearerToken)
	}
	if user != "" {
		headers["Impersonate-User"], headers["Impersonate-Group"] = []string{user}, []string{"system:authenticated"}
	}
	client, response, err := dialer.DialContext(here.ctx, "wss://"+to.Host+subresources+"/namespaces/"+s.ns+"/virtualmachineinstances/"+name+"/"+device, headers)
	if err == nil {
		Expect(client.Subprotocol()).To(Equal("plain.kubevirt.io"))
		return client, response.StatusCode, ""
	}
	Expect(response).NotTo(BeNil(), "%v", err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return nil, response.StatusCode, string(body)
}

// done is the answer to an action on a guest.
func done() OmegaMatcher {
	return WithTransform(func(a answer) int { return a.code }, Equal(http.StatusOK))
}

var _ = Describe("Guests of VMIs", Ordered, ContinueOnFailure, func() {
	var s *story
	BeforeAll(func() {
		serveSubresources()
		installRoles()
	})
	BeforeEach(func() { s = newStory() })

	It("are paused and rebooted by their launchers", func() {
		k := s.kubelet()
		k.runs("web", "")
		Expect(s.ask("", "web", "pause", "?dryRun=All")).To(done())
		Expect(k.executed()).To(BeEmpty())
		Expect(s.ask("", "web", "unpause", "?dryRun=All")).To(rejectedInstance("web", "VMI is not paused"))
		Expect(s.ask("", "web", "unpause", "")).To(rejectedInstance("web", "VMI is not paused"))

		Expect(s.ask("", "web", "pause", "")).To(done())
		Expect(s.paused("web")).To(Equal("True PausedByUser VMI was paused by user true"))
		Expect(s.ask("", "web", "pause", "")).To(rejectedInstance("web", "VMI is already paused"))
		Expect(s.ask("", "web", "pause", "?dryRun=All")).To(rejectedInstance("web", "VMI is already paused"))
		Expect(s.ask("", "web", "softreboot", "?dryRun=All")).To(rejectedInstance("web", "VMI is paused"))
		Expect(s.ask("", "web", "softreboot", "").status().Message).To(ContainSubstring("softreboot failed: the guest agent is away"))
		Expect(s.ask("", "web", "unpause", "")).To(done())
		Expect(s.paused("web")).To(BeEmpty())

		Expect(s.ask("", "web", "reset", "")).To(done())
		Expect(s.ask("", "web", "softreboot", "")).To(done())
		Expect(k.executed()).To(HaveExactElements(
			launcherControl+"unpause", launcherControl+"pause", launcherControl+"pause", launcherControl+"softreboot",
			launcherControl+"unpause", launcherControl+"reset", launcherControl+"softreboot"))
		Eventually(k.executes).Should(BeZero())
	})

	It("are reached in the pod that runs them only", func() {
		Expect(s.ask("", "none", "reset", "")).To(rejectedWith(http.StatusNotFound, `virtualmachineinstance.kubevirt.io "none" not found`))
		k := s.kubelet()
		s.create(tinyInstance("other", ""))
		for _, verb := range []string{"pause", "unpause", "reset", "softreboot"} {
			Expect(s.ask("", "other", verb, "")).To(rejectedInstance("other", "VMI is not running"))
		}
		_, code, body := s.socket("", "other", "console")
		Expect(code).To(Equal(http.StatusBadRequest), "clients try again")
		Expect(body).To(ContainSubstring(`"VMI is not running"`))
		s.claimed("other", `"phase": "Running"`)
		Expect(s.ask("", "other", "reset", "")).To(rejectedInstance("other", "pod virt-launcher-other does not run this VMI"), "there is none")

		vmi, pod := k.runs("web", "")
		s.claimed("web", `"activePods": {"`+string(pod.GetUID())+`": null, "another": "x"}`)
		Expect(s.ask("", "web", "reset", "")).To(rejectedInstance("web", "pod virt-launcher-web does not run this VMI"), "the status names another one")
		s.claimed("web", `"activePods": {"`+string(pod.GetUID())+`": "x"}`)
		for _, owner := range []string{`null`, `[{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": "` + string(vmi.GetUID()) + `"}]`} {
			_, err := here.client.Resource(pods).Namespace(s.ns).Patch(here.ctx, pod.GetName(), types.MergePatchType, []byte(`{"metadata": {"ownerReferences": `+owner+`}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(s.ask("", "web", "reset", "")).To(rejectedInstance("web", "pod virt-launcher-web does not run this VMI"), "it controls none")
		}
		Expect(k.executed()).To(BeEmpty())
	})

	It("are not reached where there is no node", func() {
		k := s.kubelet()
		k.node = ""
		k.runs("web", "")
		Expect(s.ask("", "web", "pause", "")).To(WithTransform(func(a answer) string { return a.status().Message },
			ContainSubstring("pause failed: ")))
		Expect(s.paused("web")).To(BeEmpty())
	})

	It("reject what their VMI cannot have", func() {
		k := s.kubelet()
		k.runs("web", "autoattachSerialConsole: false, autoattachGraphicsDevice: false")
		for device, why := range map[string]string{"console": "No serial consoles are present.", "vnc": "No graphics devices are present."} {
			_, code, body := s.socket("", "web", device)
			Expect(code).To(Equal(http.StatusBadRequest))
			Expect(body).To(ContainSubstring(why))
		}
		Expect(call("", http.MethodGet, "namespaces/"+s.ns+"/virtualmachineinstances/web/console", "").status().Message).To(Equal("want a WebSocket: use virtwright or virtctl"))
	})

	It("can be reached with permission", func() {
		k := s.kubelet()
		k.runs("web", "")
		s.bind("vera", "view")
		for _, verb := range []string{"pause", "unpause", "reset", "softreboot"} {
			Expect(s.ask("vera", "web", verb, "").code).To(Equal(http.StatusForbidden))
		}
		for _, device := range []string{"console", "vnc", "portforward/22"} {
			_, code, body := s.socket("vera", "web", device)
			Expect(code).To(Equal(http.StatusForbidden))
			subresource, _, _ := strings.Cut(device, "/")
			Expect(body).To(ContainSubstring(`cannot get resource \"virtualmachineinstances/` + subresource + `\" in API group \"subresources.kubevirt.io\"`))
		}
		s.bind("eddy", "edit")
		Eventually(func() answer { return s.ask("eddy", "web", "pause", "") }).Should(done())
		client, _, _ := s.socket("eddy", "web", "console")
		Expect(client.Close()).To(Succeed())
		_, code, body := s.socket("eddy", "web", "portforward/22")
		Expect(code).To(Equal(http.StatusConflict))
		Expect(body).To(ContainSubstring("VMI is paused"))
		Expect(s.ask("eddy", "web", "unpause", "")).To(done())
		for _, port := range []string{"portforward/22", "portforward/22/tcp"} {
			client, code, body = s.socket("eddy", "web", port)
			Expect(code).To(Equal(http.StatusSwitchingProtocols), body)
			Expect(client.Close()).To(Succeed())
		}
		for port, why := range map[string]string{"portforward/0": "must be 1 to 65535", "portforward/53/udp": "use tcp, or a Service"} {
			_, code, body := s.socket("eddy", "web", port)
			Expect(code).To(Equal(http.StatusBadRequest))
			Expect(body).To(ContainSubstring(why))
		}
	})

	It("have consoles that end with either side, and no more than the share of their user", func() {
		k := s.kubelet()
		k.runs("web", "")
		s.bind("eddy", "edit")
		Eventually(func() answer { return s.ask("eddy", "web", "reset", "?dryRun=All") }).Should(done())
		const most = 16
		var clients []*websocket.Conn
		for range most {
			client, code, body := s.socket("", "web", []string{"console", "vnc"}[len(clients)%2])
			Expect(code).To(Equal(http.StatusSwitchingProtocols), body)
			clients = append(clients, client)
		}
		Eventually(k.executes).Should(Equal(most))
		_, code, body := s.socket("", "web", "console")
		Expect(code).To(Equal(http.StatusTooManyRequests))
		Expect(body).To(ContainSubstring("you have 16 connections to guests on this replica, the limit for a user; close one, or try again"))
		other, code, body := s.socket("eddy", "web", "console")
		Expect(code).To(Equal(http.StatusSwitchingProtocols), body)
		Expect(other.Close()).To(Succeed())
		Expect(s.ask("", "web", "reset", "")).To(done(), "consoles keep nothing else away")
		for i, client := range clients {
			if i%4 < 2 {
				Expect(client.Close()).To(Succeed())
				continue
			}
			Expect(client.WriteMessage(websocket.BinaryMessage, []byte("exit\n"))).To(Succeed())
			var err error
			for err == nil {
				_, _, err = client.ReadMessage()
			}
			Expect(websocket.IsCloseError(err, websocket.CloseGoingAway)).To(BeTrue(), "%v", err)
			_ = client.Close() // the other side has closed the connection
		}
		Eventually(k.executes).Should(BeZero())
		Eventually(func() int {
			client, code, _ := s.socket("", "web", "console")
			if client != nil {
				Expect(client.Close()).To(Succeed())
			}
			return code
		}).Should(Equal(http.StatusSwitchingProtocols))
	})

	It("have consoles that stay open while nothing is typed", func() {
		k := s.kubelet()
		k.runs("web", "")
		client, _, _ := s.socket("", "web", "console")
		var pings atomic.Int32
		answer := client.PingHandler()
		client.SetPingHandler(func(text string) error {
			pings.Add(1)
			return answer(text)
		})
		var read lockedBuffer
		go func() { _, _ = io.Copy(&read, websocket.JoinMessages(client, "")) }()
		Eventually(pings.Load).Should(BeNumerically("==", 4), "longer than servers wait for other requests")
		Expect(client.WriteMessage(websocket.BinaryMessage, []byte("hello\n"))).To(Succeed())
		Eventually(func() string { return read.tail(1 << 10) }).Should(Equal("login: hello\n"))
		Expect(client.Close()).To(Succeed())
		Eventually(k.executes).Should(BeZero())
	})

	It("let go of their consoles when the manager stops", func() {
		k := s.kubelet()
		k.runs("web", "")
		client, _, _ := s.socket("", "web", "console")
		Eventually(k.executes).Should(Equal(1))
		here.manager.restart(here.manager.args)
		awaitAggregated()
		var err error
		for err == nil {
			_, _, err = client.ReadMessage()
		}
		Eventually(k.executes).Should(BeZero())
	})

	It("are reached by the program that people have", func() {
		k := s.kubelet()
		s.create(tinyInstance("web", ""))
		program := here.programs + "/virtwright"
		console := s.terminal(program, "console", "web", "--namespace="+s.ns)
		Eventually(func() string { return console.errs.tail(1 << 10) }).Should(ContainSubstring("waiting for VMI " + s.ns + "/web to run\n"))
		pod := k.pod(s.get(instance, "web"))
		s.claimed("web", `"phase": "Running", "activePods": {"`+string(pod.GetUID())+`": "x"}`)
		Eventually(console.shows).Should(Equal("login: "))
		Expect(console.errs.tail(1 << 10)).To(ContainSubstring("connected to the console of VMI " + s.ns + "/web; press Ctrl-] to leave"))
		console.types("ls\n")
		Eventually(console.shows).Should(Equal("login: ls\n"))
		console.types("\x1d")
		code, _, errs := console.ends()
		Expect(code).To(BeZero(), errs)

		console = s.terminal(program, "console", "vm/web", "--namespace="+s.ns)
		console.types("exit\n")
		Expect(console.in.Close()).To(Succeed())
		code, out, errs := console.ends()
		Expect(code).To(BeZero(), errs)
		Expect(out).To(Equal("login: "))
		Expect(errs).To(ContainSubstring("connection closed: the guest ended, another client connected, or the connection was lost"))

		for _, verb := range []string{"pause", "unpause", "reset", "softreboot"} {
			code, out, errs = s.virtwright(verb, "web").ends()
			Expect(code).To(BeZero(), errs)
			Expect(out).To(Equal("VMI web was scheduled to " + verb + "\n"))
		}
		code, _, errs = s.virtwright("console", "none").ends()
		Expect(code).To(Equal(1))
		Expect(errs).To(ContainSubstring(`cannot connect to the console of VMI ` + s.ns + `/none: virtualmachineinstance.kubevirt.io "none" not found`))
		Eventually(k.executes).Should(BeZero())
	})

	It("have displays that viewers reach through the program", func() {
		k := s.kubelet()
		k.runs("web", "")
		vnc := s.terminal(here.programs+"/virtwright", "vnc", "web", "--namespace="+s.ns)
		address := func() string {
			_, address, _ := strings.Cut(strings.TrimSpace(vnc.errs.tail(1<<10)), "VNC display of VMI "+s.ns+"/web is at ")
			return address
		}
		Eventually(address).Should(HavePrefix("127.0.0.1:"))
		for range 2 {
			viewer, err := net.Dial("tcp", address())
			Expect(err).NotTo(HaveOccurred())
			version := make([]byte, 12)
			_, err = io.ReadFull(viewer, version)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(version)).To(Equal("RFB 003.008\n"))
			Expect(viewer.Close()).To(Succeed())
			Eventually(k.executes).Should(BeZero())
		}
		Expect(vnc.cmd.Process.Signal(os.Interrupt)).To(Succeed())
		code, _, errs := vnc.ends()
		Expect(code).To(BeZero(), errs)
	})

	It("are reached by KubeVirt's client library", func() {
		client := GinkgoT().TempDir() + "/client"
		out, err := exec.Command("go", "build", "-C", root+"/test/render/kubevirt", "-o", client, "./client").CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		k := s.kubelet()
		k.runs("web", "")
		for _, verb := range []string{"pause", "unpause", "reset", "softreboot"} {
			code, _, errs := s.terminal(client, s.ns, "web", verb).ends()
			Expect(code).To(BeZero(), errs)
		}
		for device, greeting := range map[string]string{"console": "login: ", "vnc": "RFB 003.008\n", "portforward": "SSH-2.0\n"} {
			stream := s.terminal(client, s.ns, "web", device)
			stream.types("hello\n")
			Eventually(stream.shows).Should(Equal(greeting+"hello\n"), func() string { return stream.errs.tail(1 << 10) })
			Expect(stream.in.Close()).To(Succeed())
			code, _, errs := stream.ends()
			Expect(code).To(BeZero(), errs)
		}
		Expect(k.executed()).To(HaveLen(7))
		Eventually(k.executes).Should(BeZero())
		code, _, errs := s.terminal(client, s.ns, "web", "vm-portforward").ends()
		Expect(code).To(Equal(1))
		Expect(errs).To(ContainSubstring(`virtualmachine.kubevirt.io "web" not found`), "no VM owns the VMI")
		code, _, errs = s.terminal(client, s.ns, "none", "console").ends()
		Expect(code).To(Equal(1))
		Expect(errs).To(ContainSubstring(`virtualmachineinstance.kubevirt.io "none" not found`))
	})
})
