package subresources

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// everything is what clients may send and accept: KubeVirt's send no content type.
const everything = "*/*"

// adder adds calls to a version of a group.
func adder(service *restful.WebService) func(*restful.RouteBuilder, http.HandlerFunc) {
	return func(b *restful.RouteBuilder, does http.HandlerFunc) {
		service.Route(b.Consumes(everything).Produces(everything).To(func(in *restful.Request, out *restful.Response) {
			does(out.ResponseWriter, in.Request)
		}))
	}
}

// routeOwn adds the calls of OwnGroup.
func (s *Server) routeOwn(service *restful.WebService, _ authorizer.UnconditionalAuthorizer) {
	add := adder(service)
	renderer := &renderer{profiles: s.options.Profiles, namespaces: s.options.Presets.Namespaces, machines: s.machines}
	add(service.GET("/namespaces/{namespace}/virtualmachineinstances/{name}/domain").Operation("readVirtualMachineInstanceDomain").
		Doc("the libvirt domain that an instance becomes, under what is assumed of hosts: XML, or JSON with what was decided").
		Param(service.PathParameter("namespace", "namespace of the instance")).Param(service.PathParameter("name", "name of the instance")).
		Param(service.QueryParameter("stage", "frontend: what the guest sees; backend: the complete domain (default)")).
		Returns(http.StatusOK, "OK", rendered), renderer.answer)
}

// route adds the calls of a version of Group. Their operations begin with one of
// Kubernetes' verbs, without which there is no OpenAPI, and no server.
func (s *Server) route(service *restful.WebService, may authorizer.UnconditionalAuthorizer) {
	const one = "/namespaces/{namespace}/virtualmachines/{name}/"
	add := adder(service)
	namespace := service.PathParameter("namespace", "namespace of the virtual machine")
	name := service.PathParameter("name", "name of the virtual machine")
	dryRun := service.QueryParameter("dryRun", "All: change nothing, and answer as if")
	for verb, power := range powers {
		doc, operation := verb+" a virtual machine", "VirtualMachine"+strings.ToUpper(verb[:1])+verb[1:]
		add(service.PUT(one+verb).Operation("replace"+operation).Doc(doc).Param(namespace).Param(name).Param(dryRun).
			Reads(optionsOf(verb)).Returns(http.StatusAccepted, "Accepted", ""), s.handler(power))
		add(service.GET(one+verb).Operation("read"+operation).Doc(doc+", where that is allowed").Param(namespace).Param(name).Param(dryRun).
			Returns(http.StatusAccepted, "Accepted", ""), s.byGet(verb, power))
	}
	s.routeInstances(service)
	expander := &expander{Presets: s.options.Presets, machines: s.machines, authorizer: may}
	add(service.GET(one+"expand-spec").Operation("readVirtualMachineExpandSpec").Doc("what presets make of a stored virtual machine").
		Param(namespace).Param(name).Returns(http.StatusOK, "OK", machine), expander.stored)
	add(service.PUT("/namespaces/{namespace}/expand-vm-spec").Operation("replaceExpandVMSpec").Doc("what presets make of a virtual machine").
		Param(namespace).Reads(machine).Returns(http.StatusOK, "OK", machine), expander.sent)
	add(service.GET("/version").Operation("readVersion").Doc("version of the KubeVirt whose API this is").
		Returns(http.StatusOK, "OK", version.Info{}), func(w http.ResponseWriter, _ *http.Request) { answer(w, s.options.Version) })
	add(service.GET("/healthz").Operation("readHealthz").Doc("whether this API is served").
		Returns(http.StatusOK, "OK", ""), func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]string{"status": "ok"}) })
}

// routeInstances adds the calls that are about instances.
func (s *Server) routeInstances(service *restful.WebService) {
	add := adder(service)
	for verb, power := range instancePowers {
		operation := map[string]string{"reset": "Reset", "softreboot": "SoftReboot"}[verb]
		add(service.PUT("/namespaces/{namespace}/virtualmachineinstances/{name}/"+verb).Operation("replaceVirtualMachineInstance"+operation).
			Doc(verb+" a virtual machine instance that runs").
			Param(service.PathParameter("namespace", "namespace of the instance")).Param(service.PathParameter("name", "name of the instance")).
			Param(service.QueryParameter("dryRun", "All: change nothing, and answer as if")).
			Returns(http.StatusAccepted, "Accepted", ""), s.handler(power))
	}
}

// handler answers calls of a power.
func (s *Server) handler(p *power) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := p.call(s.machines, r); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// byGet answers calls with GET, which has no body.
func (s *Server) byGet(verb string, p *power) http.HandlerFunc {
	if s.options.AllowGet {
		return s.handler(p)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		err := apierrors.NewMethodNotSupported(schema.GroupResource{Group: Group, Resource: "virtualmachines/" + verb}, http.MethodGet)
		err.ErrStatus.Message += "; use PUT, which needs the right to update: GET is answered only where an administrator has allowed it"
		w.Header().Set("Allow", http.MethodPut)
		refuse(w, err)
	}
}

// subject is what a request is about.
func subject(r *http.Request) (*apirequest.RequestInfo, error) {
	info, ok := apirequest.RequestInfoFrom(r.Context())
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("no request info for %s", r.URL.Path))
	}
	for what, name := range map[string]string{"Name": info.Name, "Namespace": info.Namespace} {
		if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s parameter invalid: %q: %s", what, name, strings.Join(wrong, ";")))
		}
	}
	return info, nil
}

// kindOf is the kind of the options of a verb, for error messages.
func kindOf(options any) schema.GroupKind {
	name := fmt.Sprintf("%T", options)
	return schema.GroupKind{Group: kubevirtv1.SubresourceGroupName, Kind: name[strings.LastIndex(name, ".")+1:]}
}
