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

// Priorities of the groups, as KubeVirt registers its own.
const (
	groupPriority   = 1000
	versionPriority = 15
)

// install puts the APIs and their discovery into a server.
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
