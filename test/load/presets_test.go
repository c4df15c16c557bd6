package load

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/webhooks"
)

// mostFields is the number of fields of presets that are created. API servers themselves take too
// long for 64 presets with more.
const mostFields = 15_000

// TestHostilePresets: a replica stays below its memory limit with any presets that clients send to
// its webhook or create, answers all of them in time, and answers small requests.
func TestHostilePresets(t *testing.T) {
	i := installation.New(t)
	i.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed,replicas=1")
	r := i.Start("virtwright-1")
	i.Eventually("the replica serves", r.Serves)
	i.Must("", "create", "namespace", "load")
	config := rest.CopyConfig(i.Config())
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client := dynamic.NewForConfigOrDie(config).Resource(clusterPresets)
	users := people(t, i.Config())
	hostile := presetShapes()
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		t.Run(name, func(t *testing.T) {
			forget(t, r.PID())
			before, stop := processorSeconds(t, r.PID()), users.work(t)
			codes := attackPresets(t, "https://"+r.Webhooks(), hostile[name])
			written := map[int]int{}
			if strings.Count(hostile[name], ",") < mostFields {
				written = createPresets(t, client, hostile[name])
			}
			created := stop()
			peak, spent := memory(t, r.PID(), "VmHWM"), processorSeconds(t, r.PID())-before
			t.Logf("peak %d MiB of %d MiB that the chart grants; %.1f s of processor time; %d small creates; reviews by code: %v; creates by code: %v",
				peak>>20, r.MemoryLimit()>>20, spent, created, codes, written)
			if peak >= most {
				t.Errorf("the replica took %d MiB, want less than %d MiB", peak>>20, most>>20)
			}
			if codes[0]+written[0]+written[http.StatusInternalServerError] > 0 {
				t.Errorf("reviews by code: %v, creates by code: %v: want an answer to each", codes, written)
			}
			if created == 0 || codes[http.StatusUnprocessableEntity]+codes[http.StatusOK] == 0 {
				t.Errorf("%d small creates, reviews by code: %v: want some of each", created, codes)
			}
			if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if r.Starts() != 1 {
		t.Errorf("the replica was started %d times", r.Starts())
	}
}

// attackPresets sends reviews of a preset to the webhook from many clients at once.
func attackPresets(t *testing.T, address, spec string) map[int]int {
	t.Helper()
	review := func(operation, old string) []byte {
		return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"` + operation +
			`","userInfo":{"username":"eve","groups":["system:masters"]},"object":{"metadata":{"name":"a"},"spec":` + spec + `},"oldObject":` + old + `}}`)
	}
	bodies := [][]byte{review("CREATE", "null"), review("UPDATE", `{"metadata":{"name":"a"},"spec":`+strings.Replace(spec, "{", `{"priority":1,`, 1)+`}`)}
	return send(t, clients, func(n int) (string, []byte) {
		return address + webhooks.PathValidateClusterVirtualMachinePreset + "?timeout=5s", bodies[n%2]
	})
}

// createPresets creates a preset from many clients at once, and counts the answers by code. Zero
// counts requests without an answer.
func createPresets(t *testing.T, client dynamic.ResourceInterface, spec string) map[int]int {
	t.Helper()
	var mu sync.Mutex
	codes := map[int]int{}
	var writers sync.WaitGroup
	for n := range clients {
		writers.Go(func() {
			_, err := client.Create(t.Context(), object(`{"apiVersion":"virtwright.dev/v1alpha1","kind":"ClusterVirtualMachinePreset","metadata":{"name":"a-%d"},"spec":%s}`, n, spec), metav1.CreateOptions{})
			code := http.StatusOK
			if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
				code = int(status.ErrStatus.Code)
			} else if err != nil {
				code = 0
			}
			mu.Lock()
			defer mu.Unlock()
			if codes[code]++; codes[code] == 1 && err != nil {
				t.Logf("the first answer of code %d: %.600s", code, err.Error())
			}
		})
	}
	writers.Wait()
	return codes
}
