package subresources

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/subresources/decide"
)

// served returns the API without authentication, authorization and API servers.
func served(t *testing.T) http.Handler {
	t.Helper()
	s, err := New(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Version: version.Info{GitVersion: "v1.2.3"}})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := newFrontProxy(s.clients)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	server, err := s.assemble(listener, proxy)
	if err != nil {
		t.Fatal(err)
	}
	server.PrepareRun()
	return server.UnprotectedHandler()
}

// ask decodes the answer of a GET.
func ask(t *testing.T, handler http.Handler, path, accept string, into any) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	request.Header.Set("Accept", accept)
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	if response.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, response.Code, response.Body)
	}
	if err := json.Unmarshal(response.Body.Bytes(), into); err != nil {
		t.Fatalf("%s: %v: %s", path, err, response.Body)
	}
}

func TestDiscovery(t *testing.T) {
	handler := served(t)
	var list metav1.APIGroupList
	ask(t, handler, "/apis", "application/json", &list)
	var all apidiscoveryv2.APIGroupDiscoveryList
	ask(t, handler, "/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", &all)
	if len(list.Groups) != len(groups) || len(all.Items) != len(groups) {
		t.Fatalf("groups: %+v, aggregated: %+v", list.Groups, all.Items)
	}
	for i := range groups {
		g, is, aggregated := &groups[i], list.Groups[i], all.Items[i]
		if is.PreferredVersion.GroupVersion != g.name+"/"+g.versions[0] || len(is.Versions) != len(g.versions) || aggregated.Name != g.name || len(aggregated.Versions) != len(g.versions) {
			t.Fatalf("%s: %+v, aggregated %+v", g.name, is, aggregated)
		}
		for at, name := range g.versions {
			g.isAdvertised(t, handler, name, &aggregated.Versions[at])
		}
	}
}

// isAdvertised checks discovery of a version in both forms.
func (g *group) isAdvertised(t *testing.T, handler http.Handler, name string, version *apidiscoveryv2.APIVersionDiscovery) {
	t.Helper()
	var list metav1.APIResourceList
	ask(t, handler, "/apis/"+g.name+"/"+name, "application/json", &list)
	var got, aggregated []string
	for _, resource := range list.APIResources {
		got = append(got, resource.Name)
		if len(resource.Verbs) > 0 || resource.Kind != "" || !resource.Namespaced {
			t.Errorf("advertised too much or too little: %+v", resource)
		}
	}
	if version.Version != name {
		t.Errorf("version %s, want %s", version.Version, name)
	}
	for _, resource := range version.Resources {
		if len(resource.Verbs) > 0 {
			t.Errorf("verbs of %s: %v", resource.Resource, resource.Verbs)
		}
		for _, sub := range resource.Subresources {
			aggregated = append(aggregated, resource.Resource+"/"+sub.Subresource)
		}
	}
	if diff := cmp.Diff(g.subresources, got) + cmp.Diff(g.subresources, aggregated); diff != "" {
		t.Error(diff)
	}
}

// TestOpenAPI checks definitions. Without one the process would end; with a wrong one kubectl would
// reject every manifest.
func TestOpenAPI(t *testing.T) {
	handler := served(t)
	start := "/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}/start"
	var v2 struct {
		Paths       map[string]any
		Definitions map[string]any
	}
	ask(t, handler, "/openapi/v2", "application/json", &v2)
	if v2.Paths[start] == nil || v2.Definitions["io.kubevirt.api.core.v1.StartOptions"] == nil {
		t.Errorf("version 2 does not describe starts: %v", v2)
	}
	var root struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	ask(t, handler, "/openapi/v3", "application/json", &root)
	for i := range groups {
		for _, version := range groups[i].versions {
			if _, ok := root.Paths["apis/"+groups[i].name+"/"+version]; !ok {
				t.Errorf("version 3 lacks %s of %s: %v", version, groups[i].name, root.Paths)
			}
		}
	}
	var v3 struct {
		Paths      map[string]any
		Components struct{ Schemas map[string]any }
	}
	ask(t, handler, root.Paths["apis/"+Group+"/v1"].ServerRelativeURL, "application/json", &v3)
	if v3.Paths[start] == nil || v3.Components.Schemas["io.kubevirt.api.core.v1.StartOptions"] == nil {
		t.Errorf("version 3 does not describe starts: %v", v3)
	}
	if at := strings.Replace(start, "virtualmachines/{name}/start", "virtualmachineinstances/{name}/reset", 1); v3.Paths[at] == nil {
		t.Errorf("version 3 does not describe resets: %v", v3.Paths)
	}
	ask(t, handler, root.Paths["apis/"+ownGroup+"/"+ownVersion].ServerRelativeURL, "application/json", &v3)
	if v3.Paths["/apis/"+ownGroup+"/"+ownVersion+"/namespaces/{namespace}/virtualmachineinstances/{name}/domain"] == nil || v3.Components.Schemas[rendered.OpenAPIModelName()] == nil {
		t.Errorf("version 3 does not describe domains: %v", v3)
	}
}

func TestVersionAndHealth(t *testing.T) {
	handler := served(t)
	for _, name := range versions {
		var got version.Info
		ask(t, handler, "/apis/"+Group+"/"+name+"/version", "*/*", &got)
		if got.GitVersion != "v1.2.3" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var health map[string]string
	ask(t, handler, "/apis/"+Group+"/v1/healthz", "*/*", &health)
}

func TestUnreadableBodies(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"nothing":       {"", ""},
		"white space":   {" \n", ""},
		"null":          {"null", ""},
		"JSON":          {`{"paused": true, "later": 1}`, ""},
		"YAML":          {"paused: true", ""},
		"incomplete":    {"{", "Can not unmarshal"},
		"a word":        {"word", "Can not unmarshal"},
		"a list":        {"[]", "Can not unmarshal"},
		"another type":  {"paused: 3", "Can not unmarshal"},
		"tabs":          {"{\t\"paused\":\ttrue}", ""},
		"bytes":         {"\x00\xff", "Can not unmarshal"},
		"an anchor":     {"paused: &a true", "anchors"},
		"an alias":      {"a: &a [x]\npaused: [*a]", "anchors"},
		"a merge":       {"<<: {paused: true}", "anchors"},
		"many aliases":  {aliases(), "anchors"},
		"two documents": {"paused: true\n---\npaused: false", ""},
		"deep JSON":     {nested(`{"x":`, "{}", "}", maxDepth), "levels"},
		"deep YAML":     {nested("{x: ", "y", "}", maxDepth+1), "levels"},
		"deeper still":  {nested("[", "", "]", 20000), "Can not unmarshal"},
		"deep enough":   {nested(`{"x":`, "1", "}", maxDepth), ""},
		"in a string":   {`{"x": "` + nested("[", "", "]", maxDepth+1) + `\\\"{"}`, ""},
		"too much":      {strings.Repeat(" ", maxOptions+1), "limit is"},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", strings.NewReader(test.body))
			body, err := read(request, maxOptions)
			if err == nil {
				err = decodeOptions(body, new(kubevirtv1.StartOptions))
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// aliases returns a body that would expand to ten thousand times its size.
func aliases() string {
	return "a: &a [" + strings.Repeat("x,", 8000) + "]\nb: [" + strings.Repeat("*a,", 9000) + "]\n"
}

func nested(opening, inner, closing string, depth int) string {
	return strings.Repeat(opening, depth) + inner + strings.Repeat(closing, depth)
}

// TestLargeYAML checks that YAML does not expand.
func TestLargeYAML(t *testing.T) {
	one := "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, x: "
	for name, test := range map[string]struct{ body, want string }{
		"aliases":  {one + "[&a [" + strings.Repeat("x,", 8000) + "]," + strings.Repeat("*a,", 9000) + "]}", "anchors"},
		"long":     {one + "[" + strings.Repeat("a,", maxYAML/2) + "]}", "send JSON"},
		"as JSON":  {`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "x": [` + strings.Repeat("1,", maxYAML/2) + "1]}", ""},
		"all fine": {one + "[" + strings.Repeat("a,", 1000) + "]}", ""},
	} {
		if _, err := decodeVM([]byte(test.body), "shop"); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestOptionsOfAnyCase checks that keys in any case are accepted, as in KubeVirt.
func TestOptionsOfAnyCase(t *testing.T) {
	for body, want := range map[string]kubevirtv1.StartOptions{
		`{"dryrun": ["All"]}`:               {DryRun: []string{"All"}},
		`{"DRYRUN": ["All"], "x": {"y":1}}`: {DryRun: []string{"All"}},
		"Paused: true":                      {Paused: true},
		"dryRun: [All]":                     {DryRun: []string{"All"}},
	} {
		var got kubevirtv1.StartOptions
		if err := decodeOptions([]byte(body), &got); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

// TestRejections checks which errors prove that a patch was not made.
func TestRejections(t *testing.T) {
	at := decide.VMResource
	for name, test := range map[string]struct {
		err      error
		rejected bool
	}{
		"nothing":       {nil, false},
		"a lost race":   {apierrors.NewConflict(at, "web", errors.New("changed")), true},
		"a failed test": {apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", at, "web", "test failed", 0, false), true},
		"forbidden":     {apierrors.NewForbidden(at, "web", errors.New("no")), true},
		"not found":     {apierrors.NewNotFound(at, "web"), true},
		"too many":      {apierrors.NewTooManyRequests("later", 1), true},
		"a timeout":     {apierrors.NewTimeoutError("etcd", 0), false},
		"a webhook's":   {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"unavailable":   {apierrors.NewServiceUnavailable("soon"), false},
		"a disconnect":  {context.Canceled, false},
		"no connection": {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: io.ErrUnexpectedEOF}, false},
	} {
		err := test.err
		if err != nil {
			err = &patchError{vms, err}
		}
		if _, rejected := rejection(err); rejected != test.rejected {
			t.Errorf("%s: %t", name, rejected)
		}
	}
}

// TestRetryAfter checks the header that lets clients retry.
func TestRetryAfter(t *testing.T) {
	for err, want := range map[error]string{apierrors.NewTooManyRequests("later", 3): "3", apierrors.NewBadRequest("never"): ""} {
		response := httptest.NewRecorder()
		reject(response, err)
		if got := response.Header().Get("Retry-After"); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestNames checks that invalid names are bad requests, as in API servers.
func TestNames(t *testing.T) {
	for name, test := range map[string]struct{ namespace, name, want string }{
		"fine":                {"shop", "web", ""},
		"no name":             {"shop", "", ""},
		"a percent sign":      {"shop", "a%b", `Name parameter invalid: "a%b": may not contain '%'`},
		"a slash":             {"shop", "a/b", `Name parameter invalid: "a/b": may not contain '/'`},
		"up":                  {"shop", "..", `Name parameter invalid: "..": may not be '..'`},
		"here":                {"shop", ".", `Name parameter invalid: ".": may not be '.'`},
		"a namespace like it": {"a%b", "web", `Namespace parameter invalid: "a%b": may not contain '%'`},
	} {
		info := &apirequest.RequestInfo{Namespace: test.namespace, Name: test.name}
		request := httptest.NewRequestWithContext(apirequest.WithRequestInfo(t.Context(), info), http.MethodPut, "/", http.NoBody)
		_, err := subject(request)
		if test.want == "" && err != nil || test.want != "" && (!apierrors.IsBadRequest(err) || err.Error() != test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestDecodeVM(t *testing.T) {
	vm, err := decodeVM([]byte(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": {"large": 9007199254740993}}`), "shop")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"namespace": "shop"},
		"spec": map[string]any{"large": int64(9007199254740993)},
	}
	if diff := cmp.Diff(want, vm); diff != "" {
		t.Error(diff)
	}
	for body, want := range map[string]string{
		"":     "empty request body",
		"null": "Object is not a valid VirtualMachine",
		"[]":   "Can not unmarshal",
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: []}":               "Object is not a valid VirtualMachine",
		"{apiVersion: a/b/c, kind: VirtualMachine}":                                      "Object is not a valid VirtualMachine",
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance}":                     "Object is not a valid VirtualMachine",
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {namespace: lab}}": "VM namespace must be empty or shop",
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {namespace: 3}}":   "VM namespace must be empty or shop",
	} {
		if _, err := decodeVM([]byte(body), "shop"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", body, err, want)
		}
	}
}

// FuzzBody checks that errors of any body are bad requests.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{"", "null", "{", "paused: true", `{"dryRun": ["All"]}`, "gracePeriod: 1e3", "a: &a [*a]", "<<: {paused: true}", "a: &a [x]\nb: [*a, *a]", "!!merge <<: {}", "\x00", "? !!binary x",
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web}}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var errs []error
		for _, options := range []any{new(kubevirtv1.StartOptions), new(kubevirtv1.StopOptions), new(kubevirtv1.RestartOptions)} {
			errs = append(errs, decodeOptions(body, options))
		}
		vm, err := decodeVM(body, "shop")
		if err == nil {
			if _, err := json.Marshal(vm); err != nil {
				t.Errorf("cannot encode the decoded VM: %v", err)
			}
		}
		for _, err := range append(errs, err) {
			if err != nil && !apierrors.IsBadRequest(err) {
				t.Errorf("%T: %v", err, err)
			}
		}
	})
}
