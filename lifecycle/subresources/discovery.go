package subresources

import (
	"github.com/emicklei/go-restful/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// Priorities of the group, as KubeVirt registers it.
const (
	groupPriority   = 1000
	versionPriority = 15
)

// advertised are the resources that discovery tells of: subresources only, and
// no verbs. Without a resource virtualmachines of this group, kubectl goes on
// meaning kubevirt.io by it; without list and delete, nobody who empties a
// namespace asks here.
func advertised() []metav1.APIResource {
	var out []metav1.APIResource
	for _, name := range []string{"expand-spec", "restart", "start", "stop"} {
		out = append(out, metav1.APIResource{Name: "virtualmachines/" + name, Namespaced: true, Verbs: metav1.Verbs{}})
	}
	return out
}

// install puts the API and its discovery into a server.
func (s *Server) install(server *genericapiserver.GenericAPIServer) error {
	group := metav1.APIGroup{Name: Group}
	resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(advertised())
	if err != nil {
		return err
	}
	for at, version := range Versions {
		gv := schema.GroupVersion{Group: Group, Version: version}
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: version})
		service := new(restful.WebService).Path("/apis/" + gv.String()).Doc("start, stop and restart virtual machines")
		discovery.NewAPIVersionHandler(server.Serializer, gv, discovery.APIResourceListerFunc(advertised)).AddToWebService(service)
		s.route(service, server.Authorizer)
		server.Handler.GoRestfulContainer.Add(service)
		server.AggregatedDiscoveryGroupManager.AddGroupVersion(Group, apidiscoveryv2.APIVersionDiscovery{
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: version, Resources: resources,
		})
		server.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), groupPriority, versionPriority-at)
	}
	group.PreferredVersion = group.Versions[0]
	server.DiscoveryGroupManager.AddGroup(group)
	server.Handler.GoRestfulContainer.Add(discovery.NewAPIGroupHandler(server.Serializer, group).WebService())
	return nil
}
