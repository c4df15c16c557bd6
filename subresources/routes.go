package subresources

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// everything is the content type of requests and answers: KubeVirt's clients send none.
const everything = "*/*"

func adder(service *restful.WebService) func(*restful.RouteBuilder, http.HandlerFunc) {
	return func(b *restful.RouteBuilder, does http.HandlerFunc) {
		service.Route(b.Consumes(everything).Produces(everything).To(func(in *restful.Request, out *restful.Response) {
			does(out.ResponseWriter, in.Request)
		}))
	}
}

func (s *Server) routeOwn(service *restful.WebService, _ authorizer.UnconditionalAuthorizer) {
	add := adder(service)
	renderer := &renderer{profiles: s.options.Profiles, namespaces: s.options.Presets.Namespaces, cluster: s.cluster}
	add(service.GET("/namespaces/{namespace}/virtualmachineinstances/{name}/domain").Operation("readVirtualMachineInstanceDomain").
		Doc("the libvirt domain of a VMI on a host with the assumed facts: XML, or JSON with decisions").
		Param(service.PathParameter("namespace", "namespace of the VMI")).Param(service.PathParameter("name", "name of the VMI")).
		Param(service.QueryParameter("stage", "frontend: the guest-visible part; backend: the complete domain (default)")).
		Returns(http.StatusOK, "OK", rendered), renderer.answer)
}

// route adds the calls of a version of Group. Operation names must begin with a verb of Kubernetes,
// or the server panics.
func (s *Server) route(service *restful.WebService, may authorizer.UnconditionalAuthorizer) {
	const one = "/namespaces/{namespace}/virtualmachines/{name}/"
	add := adder(service)
	namespace := service.PathParameter("namespace", "namespace of the VM")
	name := service.PathParameter("name", "name of the VM")
	dryRun := service.QueryParameter("dryRun", "All: validate the request, but change nothing")
	for verb, power := range powers {
		accepted := handler(http.StatusAccepted, func(r *http.Request) error { return power(s.cluster, r) })
		byGet := accepted
		if !s.options.AllowGet {
			byGet = rejectGet(verb)
		}
		doc, operation := verb+" a VM", "VirtualMachine"+strings.ToUpper(verb[:1])+verb[1:]
		add(service.PUT(one+verb).Operation("replace"+operation).Doc(doc).Param(namespace).Param(name).Param(dryRun).
			Reads(optionsOf(verb)).Returns(http.StatusAccepted, "Accepted", ""), accepted)
		add(service.GET(one+verb).Operation("read"+operation).Doc(doc+", if the administrator allows it").Param(namespace).Param(name).Param(dryRun).
			Returns(http.StatusAccepted, "Accepted", ""), byGet)
	}
	s.routeVMIs(service)
	expander := &expander{Presets: s.options.Presets, cluster: s.cluster, authorizer: may}
	add(service.GET(one+"expand-spec").Operation("readVirtualMachineExpandSpec").Doc("expand a stored VM with presets").
		Param(namespace).Param(name).Returns(http.StatusOK, "OK", anyVM), expander.stored)
	add(service.PUT("/namespaces/{namespace}/expand-vm-spec").Operation("replaceExpandVMSpec").Doc("expand the VM in the body with presets").
		Param(namespace).Reads(anyVM).Returns(http.StatusOK, "OK", anyVM), expander.sent)
	add(service.GET("/version").Operation("readVersion").Doc("version of KubeVirt with this API").
		Returns(http.StatusOK, "OK", version.Info{}), func(w http.ResponseWriter, _ *http.Request) { answer(w, s.options.Version) })
	add(service.GET("/healthz").Operation("readHealthz").Doc("health of this API").
		Returns(http.StatusOK, "OK", ""), func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]string{"status": "ok"}) })
}

func (s *Server) routeVMIs(service *restful.WebService) {
	const one = "/namespaces/{namespace}/virtualmachineinstances/{name}/"
	add := adder(service)
	namespace, name := service.PathParameter("namespace", "namespace of the VMI"), service.PathParameter("name", "name of the VMI")
	for _, action := range guestActions {
		add(service.PUT(one+string(action)).Operation("replaceVirtualMachineInstance"+operations[action]).
			Doc(string(action)+" the guest of a VMI").Param(namespace).Param(name).
			Param(service.QueryParameter("dryRun", "All: validate the request, but change nothing")).
			Returns(http.StatusOK, "OK", ""), handler(http.StatusOK, func(r *http.Request) error { return s.guests.act(r, action) }))
	}
	for _, action := range []v1alpha1.LauncherAction{v1alpha1.LauncherConsole, v1alpha1.LauncherVNC} {
		add(service.GET(one+string(action)).Operation("readVirtualMachineInstance"+operations[action]).
			Doc("connect to the "+string(action)+" of a VMI over a WebSocket").Param(namespace).Param(name),
			s.guests.serveStream(func(*http.Request) (endpoint, error) { return endpoint{action: action}, nil }))
	}
	for kind, resource := range map[string]string{"VirtualMachine": "virtualmachines", "VirtualMachineInstance": "virtualmachineinstances"} {
		one := "/namespaces/{namespace}/" + resource + "/{name}/" + string(v1alpha1.LauncherPortForward) + "/{port}"
		port, protocol := service.PathParameter("port", "TCP port of the guest"), service.PathParameter("protocol", "tcp")
		doc := "connect to a TCP port of a guest over a WebSocket"
		add(service.GET(one).Operation("read"+kind+"PortForward").Doc(doc).Param(namespace).Param(name).Param(port), s.guests.serveStream(toPort))
		add(service.GET(one+"/{protocol}").Operation("read"+kind+"PortForwardProtocol").Doc(doc).Param(namespace).Param(name).Param(port).Param(protocol),
			s.guests.serveStream(toPort))
	}
}

// toPort is the endpoint of a call for a port: …/portforward/PORT or …/portforward/PORT/PROTOCOL.
func toPort(r *http.Request) (endpoint, error) {
	info, ok := apirequest.RequestInfoFrom(r.Context())
	const port, protocol = 3, 4 // positions in the path after the namespace
	if !ok || len(info.Parts) <= port {
		return endpoint{}, apierrors.NewBadRequest("a port is required, such as portforward/22")
	}
	if number, err := strconv.ParseUint(info.Parts[port], 10, 16); err != nil || number == 0 {
		return endpoint{}, apierrors.NewBadRequest(fmt.Sprintf("port %q must be 1 to 65535", info.Parts[port]))
	}
	if len(info.Parts) > protocol && info.Parts[protocol] != "tcp" {
		return endpoint{}, apierrors.NewBadRequest(fmt.Sprintf("protocol %q is not forwarded: use tcp, or a Service", info.Parts[protocol]))
	}
	return endpoint{v1alpha1.LauncherPortForward, info.Parts[port], info.Resource == vms}, nil
}

var operations = map[v1alpha1.LauncherAction]string{
	v1alpha1.LauncherPause: "Pause", v1alpha1.LauncherUnpause: "Unpause", v1alpha1.LauncherReset: "Reset",
	v1alpha1.LauncherSoftReboot: "SoftReboot", v1alpha1.LauncherConsole: "Console", v1alpha1.LauncherVNC: "VNC",
}

func handler(success int, call func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := call(r); err != nil {
			reject(w, err)
			return
		}
		w.WriteHeader(success)
	}
}

func rejectGet(verb string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		err := apierrors.NewMethodNotSupported(schema.GroupResource{Group: Group, Resource: "virtualmachines/" + verb}, http.MethodGet)
		err.ErrStatus.Message += "; use PUT, which requires permission to update: the administrator must enable GET (--subresources-allow-get)"
		w.Header().Set("Allow", http.MethodPut)
		reject(w, err)
	}
}

func subject(r *http.Request) (types.NamespacedName, error) {
	info, ok := apirequest.RequestInfoFrom(r.Context())
	if !ok {
		return types.NamespacedName{}, apierrors.NewInternalError(fmt.Errorf("no request info for %s", r.URL.Path))
	}
	if info.Name == "" && info.Subresource != "" {
		return types.NamespacedName{}, apierrors.NewBadRequest(`Name parameter invalid: "": must not be empty`)
	}
	for what, name := range map[string]string{"Name": info.Name, "Namespace": info.Namespace} {
		if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
			return types.NamespacedName{}, apierrors.NewBadRequest(fmt.Sprintf("%s parameter invalid: %q: %s", what, name, strings.Join(wrong, ";")))
		}
	}
	return types.NamespacedName{Namespace: info.Namespace, Name: info.Name}, nil
}

func kindOf(options any) schema.GroupKind {
	name := fmt.Sprintf("%T", options)
	return schema.GroupKind{Group: kubevirtv1.SubresourceGroupName, Kind: name[strings.LastIndex(name, ".")+1:]}
}

// reasonNotImplemented is the reason of answers with code 501.
const reasonNotImplemented metav1.StatusReason = "NotImplemented"

// unserved are KubeVirt's calls that this API does not serve, as RESOURCE or RESOURCE/SUBRESOURCE,
// with the reason and an alternative. A subresource of two parts, such as sev/fetchcertchain, is
// authorized and listed under the first, unless that is served.
var unserved = map[string]string{
	"virtualmachineinstances/addvolume":           "a running VMI takes no more volumes: add the volume to the VM, and restart it",
	"virtualmachineinstances/backup":              "there are no backups of running VMIs: stop the VM, and copy or snapshot its volumes",
	"virtualmachineinstances/evacuate":            "there is no live migration, so there is no evacuation to cancel",
	"virtualmachineinstances/filesystemlist":      "the guest agent is not queried: ask the guest itself, for example with virtctl ssh",
	"virtualmachineinstances/freeze":              "file systems of guests are not frozen: stop the VM before you copy or snapshot its volumes",
	"virtualmachineinstances/guestosinfo":         "the guest agent is not queried: ask the guest itself, for example with virtctl ssh",
	"virtualmachineinstances/objectgraph":         "there is no graph of objects: read volumes, networks and accessCredentials of the VMI's spec",
	"virtualmachineinstances/redefine-checkpoint": "there are no backups of running VMIs: stop the VM, and copy or snapshot its volumes",
	"virtualmachineinstances/removevolume":        "volumes are not removed from a running VMI: remove the volume from the VM, and restart it",
	"virtualmachineinstances/sev":                 "launches of SEV guests are not attested: verify the launch in the guest",
	"virtualmachineinstances/unfreeze":            "file systems of guests are not frozen, so there is nothing to unfreeze",
	"virtualmachineinstances/usbredir":            "USB devices of clients are not redirected: copy files by the guest's network",
	"virtualmachineinstances/userlist":            "the guest agent is not queried: ask the guest itself, for example with virtctl ssh",
	"virtualmachineinstances/vnc/screenshot":      "there are no screenshots: connect to the display, for example with virtwright vnc",
	"virtualmachineinstances/vsock":               "VSOCK is not forwarded: forward a TCP port, with virtctl port-forward",
	"virtualmachines/addvolume":                   "a running VM takes no more volumes: add the volume to spec.template, and restart the VM",
	"virtualmachines/evacuate":                    "there is no live migration, so there is no evacuation to cancel",
	"virtualmachines/memorydump":                  "memory of guests is not dumped: take the dump in the guest",
	"virtualmachines/migrate":                     "there is no live migration: stop the VM, change nodeSelector or affinity of spec.template, and start it",
	"virtualmachines/objectgraph":                 "there is no graph of objects: read volumes, networks and accessCredentials of spec.template",
	"virtualmachines/removememorydump":            "memory of guests is not dumped, so there is no dump to remove",
	"virtualmachines/removevolume":                "volumes are not removed from a running VM: remove the volume from spec.template, and restart the VM",
	"guestfs":                                     "no image of libguestfs-tools is known: name one, with virtctl guestfs --image",
	"start-cluster-profiler":                      "there is no profiler: read the metrics of the manager",
	"stop-cluster-profiler":                       "there is no profiler: read the metrics of the manager",
	"dump-cluster-profiler":                       "there is no profiler: read the metrics of the manager",
}

// readAsText are calls for which virtctl prints only answers in plain text.
var readAsText = []string{"virtualmachineinstances/guestosinfo", "guestfs"}

// notImplemented answers unserved calls with code 501. Routes would add them to OpenAPI.
func notImplemented(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if !ok || info.APIGroup != Group {
			next.ServeHTTP(w, r)
			return
		}
		name := info.Resource
		if info.Subresource != "" {
			name += "/" + info.Subresource
		}
		why, found := unserved[name]
		if !found && len(info.Parts) > 3 {
			name = strings.Join(append([]string{info.Resource}, info.Parts[2:]...), "/")
			why, found = unserved[name]
		}
		if !found {
			next.ServeHTTP(w, r)
			return
		}
		message := "virtwright does not serve " + name + ": " + why
		if slices.Contains(readAsText, name) {
			http.Error(w, message, http.StatusNotImplemented)
			return
		}
		reject(w, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: reasonNotImplemented, Message: message,
			Details: &metav1.StatusDetails{Group: Group, Kind: info.Resource, Name: info.Name},
		}})
	})
}
