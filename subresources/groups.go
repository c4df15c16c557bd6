package subresources

import (
	"github.com/emicklei/go-restful/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// Group is KubeVirt's group. The most important part of it is served.
const Group = "subresources.kubevirt.io"

// ownGroup is the group of calls that KubeVirt does not have. A group is either aggregated or has
// CRDs, so presets and profiles are in another group.
const ownGroup = "subresources.virtwright.dev"

// versions are the served versions of Group, the preferred one first. They do not differ.
var versions = []string{"v1", "v1alpha3"}

const ownVersion = "v1alpha1"

type group struct {
	name         string
	versions     []string                                                               // the served versions, the preferred one first
	doc          string                                                                 // the description in OpenAPI
	subresources []string                                                               // advertised by discovery, as RESOURCE/NAME
	route        func(*Server, *restful.WebService, authorizer.UnconditionalAuthorizer) // adds the calls of a version
}

var groups = []group{{
	name: Group, versions: versions, doc: "start, stop and restart VMs, and connect to their guests",
	subresources: []string{
		"virtualmachineinstances/console", "virtualmachineinstances/pause", "virtualmachineinstances/portforward",
		"virtualmachineinstances/reset", "virtualmachineinstances/softreboot", "virtualmachineinstances/unpause",
		"virtualmachineinstances/vnc", "virtualmachines/expand-spec", "virtualmachines/portforward",
		"virtualmachines/restart", "virtualmachines/start", "virtualmachines/stop",
	},
	route: (*Server).route,
}, {
	name: ownGroup, versions: []string{ownVersion}, doc: "libvirt domains of VMIs",
	subresources: []string{"virtualmachineinstances/domain"},
	route:        (*Server).routeOwn,
}}

// APIServices returns the names of the APIServices of a Server.
func APIServices() []string {
	var out []string
	for i := range groups {
		for _, version := range groups[i].versions {
			out = append(out, version+"."+groups[i].name)
		}
	}
	return out
}

// advertised returns the resources in discovery: subresources only, without verbs. A resource
// virtualmachines would make kubectl use this group; the verbs list and delete would make the
// namespace controller ask this server.
func (g *group) advertised() []metav1.APIResource {
	var out []metav1.APIResource
	for _, name := range g.subresources {
		out = append(out, metav1.APIResource{Name: name, Namespaced: true, Verbs: metav1.Verbs{}})
	}
	return out
}

// Priorities of the groups, as in KubeVirt.
const (
	groupPriority   = 1000
	versionPriority = 15
)

func (s *Server) install(server *genericapiserver.GenericAPIServer) error {
	for i := range groups {
		if err := s.installGroup(server, &groups[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) installGroup(server *genericapiserver.GenericAPIServer, g *group) error {
	out := metav1.APIGroup{Name: g.name}
	resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(g.advertised())
	if err != nil {
		return err
	}
	for at, version := range g.versions {
		gv := schema.GroupVersion{Group: g.name, Version: version}
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: version})
		service := new(restful.WebService).Path("/apis/" + gv.String()).Doc(g.doc)
		discovery.NewAPIVersionHandler(server.Serializer, gv, discovery.APIResourceListerFunc(g.advertised)).AddToWebService(service)
		g.route(s, service, server.Authorizer)
		server.Handler.GoRestfulContainer.Add(service)
		server.AggregatedDiscoveryGroupManager.AddGroupVersion(g.name, apidiscoveryv2.APIVersionDiscovery{
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: version, Resources: resources,
		})
		server.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), groupPriority, versionPriority-at)
	}
	out.PreferredVersion = out.Versions[0]
	server.DiscoveryGroupManager.AddGroup(out)
	server.Handler.GoRestfulContainer.Add(discovery.NewAPIGroupHandler(server.Serializer, out).WebService())
	return nil
}
