package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// flow is a list in YAML's flow style of n elements.
func flow(n int, element func(int) string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = element(i)
	}
	return strings.Join(elements, ", ")
}

var _ = Describe("What costs more than it should", func() {
	var s *story
	BeforeEach(func() { s = newStory() })

	disks := func(n int) string {
		return "spec: {template: {spec: {domain: {devices: {disks: [" + flow(n, func(i int) string { return fmt.Sprintf("{name: d%d}", i) }) + "]}}}}}"
	}

	It("is rejected when a list that presets merge has more than 512 elements", func() {
		_, err := s.tryCreate(vm("web", disks(513)))
		Expect(err).To(MatchError(ContainSubstring("spec.template.spec.domain.devices.disks: Too many: must have at most 512 items")))
		Expect(apierrors.IsInvalid(err)).To(BeTrue())
	})

	It("is rejected when it has more than 100,000 parts", func() {
		// The API server takes seconds to track who owns 100,000 fields. It tracks a list of
		// strings as one.
		_, err := s.tryCreate(vm("web", "spec: {template: {spec: {dnsConfig: {searches: ["+flow(100_001, func(int) string { return "x" })+"]}}}}"))
		Expect(err).To(MatchError(ContainSubstring("the object has more than 100000 fields and list elements")))
	})

	It("does not come back when it is a huge annotation", func() {
		huge := strings.Repeat("verylong,[", 140_000)
		_, err := s.tryCreate(vm("web", "metadata: {name: web, annotations: {virtwright.dev/exclude: 'a:"+huge+"'}}"))
		Expect(err).To(MatchError(ContainSubstring("must be NAME, cluster/NAME, NAME:PATH or")))
		Expect(len(err.Error())).To(BeNumerically("<", 16<<10))
	})

	It("is one operation when reserved annotations are removed, and rejected over 256 KiB", func() {
		reserved := func(name string, n int) string {
			return "metadata: {name: " + name + ", annotations: {" + flow(n, func(i int) string { return fmt.Sprintf("virtwright.dev/l%d: x", i) }) + ", mine: kept}}"
		}
		created := s.create(vm("web", reserved("web", 9000)))
		Expect(created.GetAnnotations()).To(HaveKeyWithValue("mine", "kept"))
		for key := range created.GetAnnotations() {
			Expect(key).NotTo(HavePrefix("virtwright.dev/l"))
		}
		_, err := s.tryCreate(vm("large", reserved("large", 30_000)))
		Expect(err).To(MatchError(ContainSubstring("metadata.annotations: Too long: may not be more than 262144 bytes")))
	})

	It("is left out when a namespace has too many costly conditions, and cluster presets act all the same", func() {
		const costly = "has(object.spec.template.spec.tolerations) && object.spec.template.spec.tolerations.all(a, object.spec.template.spec.tolerations.all(b, true))"
		tolerant := func(n int) string {
			return "spec: {template: {spec: {tolerations: [" + flow(n, func(i int) string { return fmt.Sprintf("{key: k%d, operator: Exists}", i) }) + "]}}}"
		}
		condition := "match: {conditions: [{name: costly, expression: '" + costly + "'}]}"
		s.preset(aPreset("cluster/size", "{"+condition+", defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}"))
		for i := range 40 {
			s.preset(aPreset(fmt.Sprintf("noisy-%02d", i), "{priority: 1000, "+condition+", defaults: {spec: {template: {spec: {hostname: noisy}}}}}"))
		}
		got, warnings := s.createWarned(vm("web", tolerant(120)))
		Expect(got).To(haveAt(memory, "2Gi"))
		Expect(warnings).NotTo(BeEmpty())
		Expect(warnings[0]).To(contain("the conditions of the presets of namespace "+s.ns+" cost too much for one request", "skipped: noisy-"))
		events := schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
		Eventually(func(g Gomega) {
			list, err := here.client.Resource(events).Namespace(s.ns).List(here.ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			var about []any
			for _, event := range list.Items {
				if at(&event, "reason") == "ConditionsTooCostly" {
					about = append(about, at(&event, "regarding.name"))
				}
			}
			g.Expect(about).To(ContainElement(HavePrefix("noisy-")))
			g.Expect(len(about)).To(BeNumerically("<=", 10))
		}).Should(Succeed())

		s.preset(aPreset("noisy-order", "{priority: -1, "+condition+", overrides: {spec: {template: {spec: {hostname: ordered}}}}}"))
		Eventually(func() error { _, err := s.tryCreate(vm("other", tolerant(120))); return err }).Should( // a busy API server may time out
			MatchError(ContainSubstring("1 may overrule this object: noisy-order")))
		s.create(vm("cheap", tolerant(1)))
	})

	It("is answered in time when a client stops sending", func() {
		ownManager()
		for _, path := range []string{"/mutate-kubevirt-io-v1-virtualmachine", "/no-such-path", "//mutate"} {
			body, sending := io.Pipe()
			DeferCleanup(sending.Close)
			request, err := http.NewRequestWithContext(here.ctx, http.MethodPost, "https://"+here.manager.webhook+path, body)
			Expect(err).NotTo(HaveOccurred())
			request.ContentLength = 200 << 10
			request.Header.Set("Content-Type", "application/json")
			go func() { _, _ = io.WriteString(sending, strings.Repeat(" ", 1000)) }()
			client := &http.Client{
				Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, Timeout: patience,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			response, err := client.Do(request)
			Expect(err).NotTo(HaveOccurred(), path)
			_, err = io.Copy(io.Discard, response.Body) // until the server closes the connection
			Expect(err).NotTo(HaveOccurred(), path)
			Expect(response.Body.Close()).To(Succeed())
			Expect(response.StatusCode).To(BeNumerically(">=", 300), path)
		}
	})
})
