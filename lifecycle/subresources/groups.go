package subresources

import (
	"github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Group is KubeVirt's group, of which what virtualization needs most is served.
const Group = "subresources.kubevirt.io"

// OwnGroup is the group of what KubeVirt's has not. A group cannot be both
// aggregated and of CRDs, so it is another one than that of presets and profiles.
const OwnGroup = "subresources.virtwright.dev"

// Versions of Group that are served, the preferred one first. They do not differ.
var Versions = []string{"v1", "v1alpha3"}

// OwnVersion is the version of OwnGroup.
const OwnVersion = "v1alpha1"

// A group is one that is served.
type group struct {
	name string
	// versions that are served, the preferred one first.
	versions []string
	// doc is what it is for.
	doc string
	// subresources that discovery tells of, as RESOURCE/NAME.
	subresources []string
	// route adds the calls of a version.
	route func(*Server, *restful.WebService, authorizer.UnconditionalAuthorizer)
}

var groups = []group{{
	name: Group, versions: Versions, doc: "start, stop and restart virtual machines",
	subresources: []string{
		"virtualmachineinstances/reset", "virtualmachineinstances/softreboot",
		"virtualmachines/expand-spec", "virtualmachines/restart", "virtualmachines/start", "virtualmachines/stop",
	},
	route: (*Server).route,
}, {
	name: OwnGroup, versions: []string{OwnVersion}, doc: "what becomes of virtual machine instances",
	subresources: []string{"virtualmachineinstances/domain"},
	route:        (*Server).routeOwn,
}}

// APIServices are the names of the APIServices that lead to a Server.
func APIServices() []string {
	var out []string
	for i := range groups {
		for _, version := range groups[i].versions {
			out = append(out, version+"."+groups[i].name)
		}
	}
	return out
}

// advertised are the resources that discovery tells of: subresources only, and
// no verbs. Without a resource virtualmachines of this group, kubectl goes on
// meaning kubevirt.io by it; without list and delete, nobody who empties a
// namespace asks here.
func (g *group) advertised() []metav1.APIResource {
	var out []metav1.APIResource
	for _, name := range g.subresources {
		out = append(out, metav1.APIResource{Name: name, Namespaced: true, Verbs: metav1.Verbs{}})
	}
	return out
}
