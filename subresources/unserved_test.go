package subresources

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// kubevirtCalls are all calls of KubeVirt 1.9.0 (pkg/virt-api/api.go), below a version of the
// group; m/ and i/ are a VM and a VMI.
var kubevirtCalls = []string{
	"PUT m/restart", "PUT m/migrate", "PUT m/start", "PUT m/stop", "GET m/expand-spec", "PUT i/freeze", "PUT i/unfreeze", "PUT i/reset",
	"PUT i/softreboot", "PUT i/pause", "PUT i/unpause", "GET i/console", "GET i/vnc", "GET i/vnc/screenshot", "GET i/usbredir",
	"GET i/portforward/22", "GET i/portforward/22/tcp", "GET i/vsock", "GET m/portforward/22", "GET m/portforward/22/tcp",
	"PUT namespaces/n/expand-vm-spec", "GET version", "GET start-cluster-profiler", "GET stop-cluster-profiler", "GET dump-cluster-profiler",
	"GET guestfs", "GET healthz", "GET i/guestosinfo", "GET i/userlist", "GET i/filesystemlist", "GET i/objectgraph", "GET m/objectgraph",
	"PUT i/addvolume", "PUT i/removevolume", "PUT m/addvolume", "PUT m/removevolume", "PUT m/memorydump", "PUT m/removememorydump",
	"GET i/sev/fetchcertchain", "GET i/sev/querylaunchmeasurement", "PUT i/sev/setupsession", "PUT i/sev/injectlaunchsecret",
	"PUT m/evacuate/cancel", "PUT i/evacuate/cancel", "PUT i/backup", "PUT i/redefine-checkpoint",
}

// TestUnserved checks that each call of KubeVirt is either served, or answered with 501 and not in
// discovery.
func TestUnserved(t *testing.T) {
	infos := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}
	handler := notImplemented(served(t))
	asked := sets.New[string]()
	for _, version := range versions {
		for _, call := range kubevirtCalls {
			method, path, _ := strings.Cut(call, " ")
			if rest, is := strings.CutPrefix(path, "m/"); is {
				path = "namespaces/n/virtualmachines/web/" + rest
			}
			if rest, is := strings.CutPrefix(path, "i/"); is {
				path = "namespaces/n/virtualmachineinstances/web/" + rest
			}
			request := httptest.NewRequestWithContext(t.Context(), method, "/apis/"+Group+"/"+version+"/"+path, http.NoBody)
			info, err := infos.NewRequestInfo(request)
			if err != nil {
				t.Fatal(err)
			}
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request.WithContext(apirequest.WithRequestInfo(request.Context(), info)))
			name := info.Resource
			if info.Subresource != "" {
				name += "/" + info.Subresource
			}
			if _, is := unserved[name]; !is && len(info.Parts) > 3 {
				name = strings.Join(append([]string{info.Resource}, info.Parts[2:]...), "/")
			}
			asked.Insert(name)
			why, is := unserved[name]
			if response.Code == http.StatusNotFound || is != (response.Code == http.StatusNotImplemented) || is && !strings.Contains(response.Body.String(), name+": "+why) {
				t.Errorf("%s: %d %s", call, response.Code, response.Body)
			}
			if is && slices.Contains(groups[0].subresources, name) {
				t.Errorf("discovery has %s", name)
			}
		}
	}
	for name := range unserved {
		if !asked.Has(name) {
			t.Errorf("KubeVirt has no %s", name)
		}
	}
}
