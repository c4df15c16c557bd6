package controlplane

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
)

func TestVersion(t *testing.T) {
	cp := sharedControlPlane(t)
	if os.Getenv(assetsVariable) != "" {
		t.Skip("the programs were not built here")
	}
	var version struct {
		ClientVersion, ServerVersion struct{ GitVersion string }
	}
	if err := json.Unmarshal([]byte(kubectl(t, cp, "", "version", "-o", "json")), &version); err != nil {
		t.Fatal(err)
	}
	if got := version.ServerVersion.GitVersion; !strings.HasPrefix(got, "v1.37.") || got != version.ClientVersion.GitVersion {
		t.Errorf("versions are %+v, want v1.37 on both sides", version)
	}
}

func TestUserIsBoundByRBAC(t *testing.T) {
	cp := sharedControlPlane(t)
	config, err := cp.User("alice", "team-a", "team-b")
	if err != nil {
		t.Fatal(err)
	}
	alice, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list := func() error {
		_, err := alice.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice"`) {
		t.Errorf("alice without rights: %v, want forbidden", err)
	}
	kubectl(t, cp, "", "create", "rolebinding", "team-b-views", "-n", "default", "--clusterrole=view", "--group=team-b")
	eventually(t, "alice may list by her group's right", func() bool { return list() == nil })

	kubeconfig, err := cp.UserKubeconfig("alice", "team-a")
	if err != nil {
		t.Fatal(err)
	}
	who := kubectl(t, cp, "", "--kubeconfig", kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
	if want := `alice ["team-a","system:authenticated"]`; who != want {
		t.Errorf("the kubeconfig logs in %s, want %s", who, want)
	}
}

func TestInstallCRDs(t *testing.T) {
	cp := sharedControlPlane(t)
	for range 2 { // create, then update
		if err := cp.InstallCRDs(t.Context(), filepath.Join("testdata", "widgets.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, cp, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: default}, spec: {size: 3}}`, "create", "-f", "-")
	if got := kubectl(t, cp, "", "get", "wdg", "w", "-o", "jsonpath={.spec.size}"); got != "3" {
		t.Errorf("the size is %q, want 3", got)
	}
}

func TestInstallCRDsSaysWhatIsWrong(t *testing.T) {
	cp := sharedControlPlane(t)
	if err := cp.InstallCRDs(t.Context(), filepath.Join("testdata", "widgets.yaml")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ path, want string }{
		"a folder that is not there": {path: "testdata/none", want: "no such file"},
		"a folder without CRDs":      {path: t.TempDir(), want: "none in"},
		"a name that is taken":       {path: filepath.Join("testdata", "clash.yaml"), want: `"WidgetList" is already in use`},
	} {
		t.Run(name, func(t *testing.T) {
			err := cp.InstallCRDs(t.Context(), test.path)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestControllersRun(t *testing.T) {
	cp := sharedControlPlane(t)
	if cp.PIDs()["kube-controller-manager"] == 0 {
		t.Skip("the programs lack kube-controller-manager")
	}
	t.Run("garbage collector", func(t *testing.T) {
		kubectl(t, cp, "", "create", "configmap", "owner")
		uid := kubectl(t, cp, "", "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
		kubectl(t, cp, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, ownerReferences: [
			{apiVersion: v1, kind: ConfigMap, name: owner, uid: %q}]}}`, uid), "create", "-f", "-")
		kubectl(t, cp, "", "delete", "configmap", "owner")
		kubectl(t, cp, "", "wait", "--for=delete", "configmap/owned", "--timeout=60s")
	})
	t.Run("namespace controller", func(t *testing.T) {
		kubectl(t, cp, "", "create", "namespace", "goes")
		kubectl(t, cp, "", "create", "configmap", "-n", "goes", "inside")
		kubectl(t, cp, "", "delete", "namespace", "goes", "--timeout=60s")
	})
	t.Run("policy status", func(t *testing.T) {
		kubectl(t, cp, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: checked}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "object.data.nothing == 1"}]
`, "create", "-f", "-")
		kubectl(t, cp, "", "wait", "validatingadmissionpolicy/checked", "--for=jsonpath={.status.observedGeneration}=1", "--timeout=60s")
	})
	t.Run("role aggregation", func(t *testing.T) {
		kubectl(t, cp, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widgets-view, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [get]}]
`, "create", "-f", "-")
		eventually(t, "view includes the aggregated role", func() bool {
			return strings.Contains(kubectl(t, cp, "", "get", "clusterrole", "view", "-o", "yaml"), "widgets")
		})
	})
	t.Run("own credentials", func(t *testing.T) {
		eventually(t, "a controller writes as its service account", func() bool {
			events, err := cp.AuditEvents(0)
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events {
				if event.User.Username == "system:serviceaccount:kube-system:clusterrole-aggregation-controller" {
					return true
				}
			}
			return false
		})
	})
}

func TestAudit(t *testing.T) {
	cp := sharedControlPlane(t)
	kubectl(t, cp, "", "create", "configmap", "audited", "--from-literal=k=v")
	kubectl(t, cp, "", "get", "configmap", "audited")
	find := func(verb string) *auditv1.Event {
		events, err := cp.AuditEvents(0)
		if err != nil {
			t.Fatal(err)
		}
		for i, event := range events {
			// A create's reference has no name until the response.
			if event.Verb == verb && event.ObjectRef != nil && event.ObjectRef.Resource == "configmaps" && event.ObjectRef.Name == "audited" {
				return &events[i]
			}
		}
		return nil
	}
	eventually(t, "create and get are in the audit log", func() bool { return find("create") != nil && find("get") != nil })
	if create := find("create"); create.RequestObject == nil || create.ResponseObject == nil || create.User.Username != "admin" {
		t.Errorf("the event of a create lacks its objects or its user: %+v", create)
	}
	if get := find("get"); get.ResponseObject != nil {
		t.Errorf("the event of a get has the response: %+v", get)
	}
	all, _ := cp.AuditEvents(0)
	log, err := os.ReadFile(cp.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []int64{10, int64(bytes.IndexByte(log, '\n') + 1)} { // within the first event, and at its end
		if events, err := cp.AuditEvents(from); err != nil || events[0].AuditID != all[1].AuditID || events[0].Stage != all[1].Stage {
			t.Errorf("events from byte %d do not begin with the second: %v", from, err)
		}
	}
	if _, err := (&ControlPlane{}).AuditEvents(0); err == nil {
		t.Error("audit events without an audit log are no error")
	}
}

// TestAuditLogIsWhole writes more than kube-apiserver keeps in one file by default, which is 100
// MB.
func TestAuditLogIsWhole(t *testing.T) {
	cp := ForTest(t, Options{Audit: true})
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	large := map[string]string{"k": strings.Repeat("x", 1_000_000)}
	for i := range 60 { // with request and response, each is 2 MB in the log
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("large-", i)}, Data: large}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	events, err := cp.AuditEvents(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"large-0", "large-59"} {
		if !slices.ContainsFunc(events, func(e auditv1.Event) bool {
			return e.Verb == "create" && e.ObjectRef != nil && e.ObjectRef.Name == name
		}) {
			t.Errorf("the create of %s is not in the audit log", name)
		}
	}
	began := cp.AuditSize()
	kubectl(t, cp, "", "get", "configmap", "large-0")
	later, err := cp.AuditEvents(began)
	if err != nil {
		t.Fatal(err)
	}
	if len(later) == 0 || len(later) >= len(events) {
		t.Errorf("of %d events, want only those since the get, got %d", len(events), len(later))
	}
}

// TestAggregation serves an API group from this process. The control plane must reach it through a
// Service of type ExternalName and vouch for the user with its front-proxy certificate.
func TestAggregation(t *testing.T) {
	cp := sharedControlPlane(t)
	frontProxyCA, err := os.ReadFile(filepath.Join(cp.Dir(), frontProxyCAFile))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(frontProxyCA)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/who"):
			fmt.Fprintf(w, `{"user": %q, "proxy": %q}`, r.Header.Get("X-Remote-User"), r.TLS.PeerCertificates[0].Subject.CommonName)
		default:
			fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "aggregated.example.com/v1", "resources": []}`)
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	kubectl(t, cp, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: aggregated, namespace: default}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.aggregated.example.com}
spec:
  group: aggregated.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: default, name: aggregated, port: %d}
`, port), "create", "-f", "-")
	defer kubectl(t, cp, "", "delete", "apiservice", "v1.aggregated.example.com")
	kubectl(t, cp, "", "wait", "apiservice/v1.aggregated.example.com", "--for=condition=Available", "--timeout=60s")
	got := kubectl(t, cp, "", "get", "--raw", "/apis/aggregated.example.com/v1/who")
	if want := `{"user": "admin", "proxy": "front-proxy-client"}`; got != want {
		t.Errorf("the aggregated server saw %s, want %s", got, want)
	}
}
