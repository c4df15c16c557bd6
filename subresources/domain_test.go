package subresources

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
)

// instance is a stored VMI.
const instance = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
"metadata": {"name": "web", "namespace": "shop", "uid": "5d307ca9-b3ef-428c-8861-06e72d69f223", "labels": {"size": "small"}},
"spec": {"architecture": "amd64", "domain": {"machine": {"type": "q35"}, "cpu": {"sockets": 1, "cores": 1, "threads": 1, "model": "host-model"},
"memory": {"guest": "64Mi"}, "devices": {"rng": {}}}}}`

// inUse provides profiles.
type inUse struct{ profiles *domain.Profiles }

func (p inUse) Snapshot() *domain.Profiles { return p.profiles }

// shop is the only namespace.
type shop struct{}

func (shop) Get(_ context.Context, name string) (presets.Namespace, error) {
	if name != "shop" {
		return presets.Namespace{}, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return presets.Namespace{Name: name, Labels: map[string]string{"tier": "prod"}}, nil
}

// rendererOf renders the only object of an API server.
func rendererOf(t *testing.T, object string, profiles *domain.Profiles) *renderer {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/web" {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(apierrors.NewNotFound(corev1.Resource("x"), "y").Status())
			return
		}
		_, _ = w.Write([]byte(object))
	}))
	t.Cleanup(server.Close)
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &renderer{profiles: inUse{profiles}, namespaces: shop{}, cluster: &cluster{client: clients.Discovery().RESTClient()}}
}

// asked returns the answer for a VMI.
func asked(t *testing.T, re *renderer, name, query, accept string) *httptest.ResponseRecorder {
	t.Helper()
	info := &apirequest.RequestInfo{Namespace: "shop", Name: name}
	request := httptest.NewRequestWithContext(apirequest.WithRequestInfo(t.Context(), info), http.MethodGet, "/?"+query, http.NoBody)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	out := httptest.NewRecorder()
	re.answer(out, request)
	return out
}

func TestDomain(t *testing.T) {
	profile := v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: "house"}}
	profile.Spec.Match.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}
	profiles, problems := domain.CompileProfiles([]v1alpha1.FrontendProfile{profile}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	re := rendererOf(t, instance, profiles)

	got := asked(t, re, "web", "", "")
	if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "application/xml" || !strings.HasPrefix(got.Body.String(), "<domain type=") ||
		!strings.Contains(got.Body.String(), "<name>shop_web</name>") {
		t.Errorf("got %d %s %s", got.Code, got.Header(), got.Body)
	}
	got = asked(t, re, "web", "stage=frontend", "*/*")
	if strings.Contains(got.Body.String(), "<emulator>") || !strings.Contains(got.Body.String(), "<uuid>5d307ca9") {
		t.Errorf("stage frontend: got %s", got.Body)
	}

	for stage, decided := range map[string]bool{"frontend": false, "backend": true} {
		var whole map[string]any
		got = asked(t, re, "web", "stage="+stage, "application/json, */*")
		if err := json.Unmarshal(got.Body.Bytes(), &whole); err != nil || got.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%v: %s", err, got.Body)
		}
		decisions, _ := whole["decisions"].([]any)
		late, _ := whole["late"].([]any)
		of, _ := whole["profiles"].(map[string]any)
		names, _ := of["frontend"].([]any)
		if (len(decisions) > 0) != decided || len(late) == 0 || len(names) != 1 || names[0] != "house" || of["backend"] == nil || !strings.Contains(whole["domain"].(string), "<domain") {
			t.Errorf("%s: got %s", stage, got.Body)
		}
	}
}

func TestDomainErrors(t *testing.T) {
	wrong := strings.Replace(instance, `"guest": "64Mi"`, `"guest": "1"`, 1)
	for name, test := range map[string]struct {
		object, name, query string
		profiles            *domain.Profiles
		code                int
		message             string
	}{
		"no VMI":      {instance, "none", "", &domain.Profiles{}, http.StatusNotFound, `virtualmachineinstance.kubevirt.io \"none\" not found`},
		"bad stage":   {instance, "web", "stage=x", &domain.Profiles{}, http.StatusBadRequest, `stage: Unsupported value: \"x\": supported values: \"frontend\", \"backend\"`},
		"no profiles": {instance, "web", "", nil, http.StatusServiceUnavailable, "profiles are not loaded yet"},
		"no name":     {instance, "a%b", "", &domain.Profiles{}, http.StatusBadRequest, "may not contain '%'"},
		"impossible":  {wrong, "web", "", &domain.Profiles{}, http.StatusUnprocessableEntity, "spec.domain.memory.guest"},
	} {
		got := asked(t, rendererOf(t, test.object, test.profiles), test.name, test.query, "application/xml")
		if got.Code != test.code || !strings.Contains(got.Body.String(), test.message) || got.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d %s", name, got.Code, got.Body)
		}
	}
}

func TestWantsJSON(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": true, "application/json, */*": true, "application/xml": false,
		"text/xml;q=0.9, application/json;q=0.8": false, "application/xml;q=0.5, application/json": true, "application/json;q=0": false,
		"application/json;q=x": false, "text/html, nonsense/": false, "application/json;as=Table;v=v1, application/json": true,
	} {
		if got := wantsJSON([]string{accept}); got != want {
			t.Errorf("%q: got %t", accept, got)
		}
	}
}
