package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/webhooks"
)

func TestMain(m *testing.M) { os.Exit(installation.Main(m)) }

const (
	// clients send hostile bodies at the same time.
	clients = 64
	// lasting is how long they send one shape, at least once each.
	lasting = 2 * time.Second
	// most is the memory that a replica may take meanwhile, in bytes.
	most = 400 << 20
	// ticksPerSecond is the unit of processor times in /proc, on all architectures.
	ticksPerSecond = 100
)

// TestHostileBodies: a replica stays below its memory limit with any bodies that clients send, and
// answers small requests.
func TestHostileBodies(t *testing.T) {
	i := installation.New(t)
	i.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed,replicas=1")
	r := i.Start("virtwright-1")
	i.Eventually("the replica serves", r.Serves)
	i.Must("", "create", "namespace", "load")
	i.Eventually("the webhooks are called", func() error {
		return i.Try(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: first, namespace: load}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}`, "create", "-f", "-")
	})
	users := people(t, i.Config())
	hostile := shapes()
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		t.Run(name, func(t *testing.T) {
			forget(t, r.PID())
			before, stop := processorSeconds(t, r.PID()), users.work(t)
			codes := attack(t, "https://"+r.Webhooks(), hostile[name])
			created := stop()
			peak, spent := memory(t, r.PID(), "VmHWM"), processorSeconds(t, r.PID())-before
			t.Logf("peak %d MiB of %d MiB that the chart grants; %.1f s of processor time; %d small creates; answers by code: %v",
				peak>>20, r.MemoryLimit()>>20, spent, created, codes)
			if peak >= most {
				t.Errorf("the replica took %d MiB, want less than %d MiB", peak>>20, most>>20)
			}
			answered := codes[http.StatusUnprocessableEntity] + codes[http.StatusBadRequest] + codes[http.StatusRequestEntityTooLarge] + codes[http.StatusOK]
			if created == 0 || codes[0] > 0 || answered == 0 {
				t.Errorf("%d small creates, answers %v: want some of each, and no broken connections", created, codes)
			}
		})
	}
	t.Run("conversions", func(t *testing.T) {
		forget(t, r.PID())
		stop := users.work(t)
		body := []byte(conversions())
		codes := send(t, 4, func(int) (string, []byte) {
			return "https://" + r.Webhooks() + webhooks.PathConvertVirtualMachine, body
		})
		created, peak := stop(), memory(t, r.PID(), "VmHWM")
		t.Logf("peak %d MiB of %d MiB that the chart grants; %d small creates; answers by code: %v", peak>>20, r.MemoryLimit()>>20, created, codes)
		if peak >= r.MemoryLimit() || codes[http.StatusOK] == 0 {
			t.Errorf("the replica took %d MiB and answered %v: want less than its limit, and conversions", peak>>20, codes)
		}
	})
	if r.Starts() != 1 {
		t.Errorf("the replica was started %d times", r.Starts())
	}
}

// attack sends an object from many clients at once, in creates and in updates, to both webhooks,
// and counts the answers by code. Zero counts broken connections.
func attack(t *testing.T, address, object string) map[int]int {
	t.Helper()
	review := func(operation, old string) []byte {
		out := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"group":"kubevirt.io","version":"v1","kind":"VirtualMachine"},` +
			`"operation":"` + operation + `","namespace":"load","userInfo":{"username":"eve"},"object":` + object + `,"oldObject":` + old + `}}`
		return []byte(out)
	}
	bodies := [][]byte{review("CREATE", "null"), review("UPDATE", strings.Replace(object, "Halted", "Manual", 1))}
	paths := []string{webhooks.PathMutateVirtualMachine, webhooks.PathValidateVirtualMachine}
	return send(t, clients, func(n int) (string, []byte) { return address + paths[n%2] + "?timeout=5s", bodies[n/2%2] })
}

// send sends a body for each of some clients again and again, all at once.
func send(t *testing.T, clients int, what func(n int) (url string, body []byte)) map[int]int {
	t.Helper()
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: clients}, Timeout: time.Minute,
	}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	codes := map[int]int{}
	var attackers sync.WaitGroup
	end := time.Now().Add(lasting)
	for n := range clients {
		attackers.Go(func() {
			for first := true; first || time.Now().Before(end); first = false {
				url, body := what(n)
				code := answer(t.Context(), client, url, body)
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	attackers.Wait()
	return codes
}

// answer is the code of the review with which a body is answered, or of HTTP where there is none.
func answer(ctx context.Context, client *http.Client, url string, body []byte) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return response.StatusCode
	}
	var review struct {
		Response struct {
			Allowed bool
			Status  metav1.Status
			Result  metav1.Status // of conversions
		}
	}
	if json.Unmarshal(text, &review) != nil {
		return 0
	}
	if review.Response.Allowed || review.Response.Result.Status == metav1.StatusSuccess {
		return http.StatusOK
	}
	return int(review.Response.Status.Code)
}

// users create ordinary VMs through the API server.
type users struct {
	api    rest.Interface
	serial atomic.Int64
}

func people(t *testing.T, config *rest.Config) *users {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &users{api: clients.CoreV1().RESTClient()}
}

// work creates a small VM every tenth of a second, which must succeed, and a larger one every
// second, until the function is called, which counts the small ones.
func (u *users) work(t *testing.T) func() int {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	created, larger, later := 0, 0, 0
	var done sync.WaitGroup
	every := func(pause time.Duration, does func()) {
		done.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				does()
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	every(100*time.Millisecond, func() {
		if err := u.create(t.Context(), ""); err != nil {
			t.Errorf("a small create: %v", err)
		}
		created++
	})
	every(time.Second, func() {
		err := u.create(t.Context(), strings.Repeat("x", 100_000))
		switch seconds, delayed := apierrors.SuggestsClientDelay(err); {
		case err == nil:
			larger++
		case apierrors.IsTooManyRequests(err) && delayed && seconds == 1:
			later++
		default:
			t.Errorf("a larger create must succeed, or fail so that clients try again: %v", err)
		}
	})
	return func() int {
		stop()
		done.Wait()
		t.Logf("larger creates: %d succeeded, %d were answered with 429 or 503", larger, later)
		return created
	}
}

// create creates a VM with a note, and does not try again.
func (u *users) create(ctx context.Context, note string) error {
	vm := fmt.Appendf(nil, `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "ordinary-%d", "annotations": {"note": %q}},
		"spec": {"template": {"spec": {"domain": {"memory": {"guest": "1Gi"}}}}}}`, u.serial.Add(1), note)
	return u.api.Post().AbsPath("/apis/kubevirt.io/v1/namespaces/load/virtualmachines").
		SetHeader("Content-Type", "application/json").Body(vm).MaxRetries(0).Do(ctx).Error()
}

// memory is a figure of /proc/PID/status in bytes: VmHWM is the most that was resident since
// forget.
func memory(t *testing.T, pid int, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("this system does not tell the memory of a process: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), name+":")
	n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// processorSeconds is the processor time that a process has used, in seconds.
func processorSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("this system does not tell the processor time of a process: %v", err)
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name of the program may contain spaces
	fields, sum := strings.Fields(after), 0.0
	for _, ticks := range fields[11:13] { // utime and stime
		n, err := strconv.ParseFloat(ticks, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n / ticksPerSecond
	}
	return sum
}

func forget(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Skipf("this system cannot reset the measured peak: %v", err)
	}
}
