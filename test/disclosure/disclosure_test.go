package disclosure

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/webhooks"
)

func TestMain(m *testing.M) { os.Exit(installation.Main(m)) }

const policies = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: sized}
spec:
  match: {labels: {matchLabels: {size: small}}}
  overrides: {spec: {template: {spec: {hostname: policy}}}}
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: launched}
spec:
  match: {labels: {matchLabels: {size: small}}}
  applyAt: Launch
  overrides: {spec: {template: {spec: {subdomain: launched}}}}
`

const stored = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: ledger, namespace: shop, labels: {size: small}, annotations: {note: ` + password + `}}
spec:
  runStrategy: Halted
  dataVolumeTemplates:
  - {metadata: {name: ` + volume + `}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}
  template:
    spec:
      hostname: ledger
      domain:
        firmware: {uuid: ` + firmware + `}
        memory: {guest: 1Gi}
        devices:
          disks: [{name: root, disk: {bus: virtio}}, {name: cloud-init, disk: {bus: virtio}}]
          interfaces: [{name: default, masquerade: {}, macAddress: "` + mac + `"}]
      networks: [{name: default, pod: {}}]
      volumes:
      - {name: root, dataVolume: {name: ` + volume + `}}
      - {name: cloud-init, cloudInitNoCloud: {userData: "#cloud-config\npassword: ` + password + `"}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: alone, namespace: shop}
spec: {domain: {memory: {guest: 1Gi}, devices: {}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: outside, namespace: shop}
spec: {evictionStrategy: External, domain: {memory: {guest: 1Gi}, devices: {}}}
`

// A cluster has one replica, whose webhook port everybody reaches.
type cluster struct {
	*installation.Installation
	replica *installation.Replica
	client  *http.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{Installation: installation.New(t), client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	c.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed,replicas=1")
	c.replica = c.Start("virtwright-0")
	c.Eventually("the replica serves", c.replica.Serves)
	c.Eventually("the presets are created", func() error { return c.Try(policies, "apply", "-f", "-") })
	for _, preset := range []string{"sized", "launched"} {
		c.Must("", "wait", "cvmpreset/"+preset, "--for=condition=Ready", "--timeout=60s")
	}
	return c
}

// populate creates VMs and VMIs, and assigns the pod of one to a node.
func (c *cluster) populate() {
	c.Helper()
	c.Must(stored, "create", "-f", "-")
	pods := c.Clients.CoreV1().Pods(namespace)
	const pod = "virt-launcher-outside"
	c.Eventually("the VMI has a pod", func() error {
		_, err := pods.Get(c.Context(), pod, metav1.GetOptions{})
		return err
	})
	bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
	if err := pods.Bind(c.Context(), bind, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// paths returns the paths of all webhooks that are registered.
func (c *cluster) paths() []string {
	c.Helper()
	var out []string
	registrations := c.Clients.AdmissionregistrationV1()
	mutating, err := registrations.MutatingWebhookConfigurations().Get(c.Context(), webhooks.ConfigurationName, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	validating, err := registrations.ValidatingWebhookConfigurations().Get(c.Context(), webhooks.ConfigurationName, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	for i := range mutating.Webhooks {
		out = append(out, *mutating.Webhooks[i].ClientConfig.Service.Path)
	}
	for i := range validating.Webhooks {
		out = append(out, *validating.Webhooks[i].ClientConfig.Service.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (c *cluster) post(path string, body []byte) string {
	c.Helper()
	response, err := c.client.Post("https://"+c.replica.Webhooks()+path, "application/json", bytes.NewReader(body)) //nolint:noctx // answered within seconds
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		c.Fatalf("%s: %s %v: %s", path, response.Status, err, text)
	}
	return string(text)
}

// bits are all that an answer may say about stored VMs: decision 48.
var bits = regexp.MustCompile(`^a VirtualMachineInstance of this name exists, which does not belong to this VirtualMachine|` +
	`^a VirtualMachine has this name, and only its controller may create|` +
	`^its owner is not the VirtualMachine of this name|` +
	`^another VirtualMachine has a dataVolumeTemplate of this name, and both would write to one disk|` +
	`^\S+: (MAC address|firmware UUID) [-:0-9a-f]+ is also used by another VM$`)

// withoutBits returns an answer without the bits, and their number.
func withoutBits(t *testing.T, text string) (*admissionv1.AdmissionResponse, int) {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(text), &review); err != nil || review.Response == nil {
		t.Fatalf("not an answer: %v: %s", err, text)
	}
	found, response := 0, review.Response
	isBit := func(text string) bool {
		// A cause begins with its kind and its value.
		is := slices.ContainsFunc(append(strings.SplitAfter(text, `": `), text), bits.MatchString)
		if is {
			found++
		}
		return is
	}
	response.Warnings = slices.DeleteFunc(response.Warnings, isBit)
	if len(response.Warnings) == 0 {
		response.Warnings = nil
	}
	if status := response.Result; status != nil && status.Details != nil && len(status.Details.Causes) > 0 {
		status.Details.Causes = slices.DeleteFunc(status.Details.Causes, func(cause metav1.StatusCause) bool {
			_, detail, _ := strings.Cut(cause.Message, ": ")
			return isBit(detail)
		})
		status.Message = "" // repeats the causes
		if len(status.Details.Causes) == 0 {
			response.Allowed, response.Result = true, &metav1.Status{Code: http.StatusOK}
		}
	}
	return response, found
}

// TestAnswersRevealOnlyBits: a client without credentials, who reaches the webhook port and forges
// reviews, learns no more about stored VMs than which names and addresses are taken.
func TestAnswersRevealOnlyBits(t *testing.T) {
	var empty, full *cluster
	var started sync.WaitGroup
	t.Run("clusters", func(*testing.T) { // both start at the same time
		started.Go(func() { empty = newCluster(t) })
		started.Go(func() { full = newCluster(t) })
		started.Wait()
	})
	if t.Failed() {
		t.FailNow()
	}
	full.populate()
	paths := full.paths()
	if len(paths) != 14 {
		t.Errorf("%d paths, want each once: %v", len(paths), paths)
	}
	secret := append(strings.Fields(full.Must("", "get", "vm,vmi,pods", "-A", "-o", "jsonpath={.items[*].metadata.uid}")), password)
	g := guesser{rand.New(rand.NewPCG(1, 2))}
	seen := map[string]int{}
	const guesses = 2000
	for n := range guesses {
		path := paths[n%len(paths)]
		body := g.review(path)
		first, second := empty.post(path, body), full.post(path, body)
		want, _ := withoutBits(t, first)
		got, found := withoutBits(t, second)
		seen[path] += found
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the answers of %s to %s differ (-without +with VMs):\n%s", path, body, diff)
		}
		for _, s := range secret {
			if strings.Contains(second, s) && !bytes.Contains(body, []byte(s)) {
				t.Fatalf("%s answers %s with %s:\n%s", path, body, s, second)
			}
		}
	}
	t.Logf("bits in %d answers: %v", guesses, seen)
	for _, path := range []string{webhooks.PathValidateVirtualMachine, "/validate-kubevirt-io-v1-virtualmachineinstance"} {
		if seen[path] == 0 {
			t.Errorf("no answer of %s has a bit, so the guesses miss the stored VMs", path)
		}
	}
	full.knowsOwner(empty, secret)
}

// knowsOwner forges the launch of the stored VM with its UID, which no answer reveals: the patch
// holds values of the request and of presets only.
func (c *cluster) knowsOwner(other *cluster, secret []string) {
	c.Helper()
	uid := c.Must("", "get", "vm", "ledger", "-n", namespace, "-o", "jsonpath={.metadata.uid}")
	body := fmt.Appendf(nil, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", "namespace": %q, "name": "ledger",
		"kind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"}, "userInfo": {"username": "system:serviceaccount:virtwright-system:virtwright"},
		"object": {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "ledger", "namespace": %q, "ownerReferences": [
			{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "ledger", "uid": %q, "controller": true}]}, "spec": {"domain": {"devices": {}}}}}}`, namespace, namespace, uid)
	const path = "/mutate-kubevirt-io-v1-virtualmachineinstance"
	first, _ := withoutBits(c.T, other.post(path, body))
	second, _ := withoutBits(c.T, c.post(path, body))
	patch := string(second.Patch)
	if string(first.Patch) == patch || !strings.Contains(patch, "launched") {
		c.Errorf("no Launch preset acts: %s", patch)
	}
	for _, s := range append(secret, mac, firmware, volume) {
		if strings.Contains(patch, s) && s != uid {
			c.Errorf("the patch holds %s of the stored VM: %s", s, patch)
		}
	}
}
