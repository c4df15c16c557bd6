package subresources

import (
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openAPI is how the API is described, in both versions.
func openAPI() (*common.Config, *common.OpenAPIV3Config) {
	namer := openapi.NewDefinitionNamer(scheme())
	v2, v3 := genericapiserver.DefaultOpenAPIConfig(definitions, namer), genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	v2.Info.Title, v3.Info.Title = Group, Group
	return v2, v3
}

// definitions are those of what is sent and answered, and no others: Kubernetes'
// own would take a megabyte.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	out := map[string]common.OpenAPIDefinition{}
	known := apiextensions.GetOpenAPIDefinitions(ref)
	for _, name := range []string{
		metav1.APIGroup{}.OpenAPIModelName(), metav1.APIGroupList{}.OpenAPIModelName(), metav1.APIResource{}.OpenAPIModelName(),
		metav1.APIResourceList{}.OpenAPIModelName(), metav1.GroupVersionForDiscovery{}.OpenAPIModelName(),
		metav1.ServerAddressByClientCIDR{}.OpenAPIModelName(), version.Info{}.OpenAPIModelName(),
	} {
		out[name] = known[name]
	}
	out[optionsOf("start").OpenAPIModelName()] = optionsSchema(map[string]spec.Schema{
		"paused": *spec.BooleanProperty().WithDescription("start the guest paused"),
	})
	out[optionsOf("stop").OpenAPIModelName()] = optionsSchema(map[string]spec.Schema{
		"gracePeriod": *spec.Int64Property().WithDescription("seconds that the guest has to end"),
	})
	out[optionsOf("restart").OpenAPIModelName()] = optionsSchema(map[string]spec.Schema{
		"gracePeriodSeconds": *spec.Int64Property().WithDescription("0: restart by force; no other value is supported"),
	})
	out[rendered.OpenAPIModelName()] = renderedSchema()
	out[machine.OpenAPIModelName()] = common.OpenAPIDefinition{Schema: *new(spec.Schema).Typed("object", "").
		WithDescription("a VirtualMachine of kubevirt.io")}
	return out
}

// described is something sent or answered, by its name. Go types of options
// cannot say themselves what they are called: they take the name of what is
// embedded in them.
type described string

// machine is any VirtualMachine, which kubevirt.io describes.
const machine described = "AnyVirtualMachine"

// OpenAPIModelName is the name among definitions.
func (d described) OpenAPIModelName() string { return "io.kubevirt.api.core.v1." + string(d) }

// ours is something answered that KubeVirt has not.
type ours string

// rendered is a Rendered.
const rendered ours = "Rendered"

// OpenAPIModelName is the name among definitions.
func (o ours) OpenAPIModelName() string { return "dev.virtwright.subresources.v1alpha1." + string(o) }

func renderedSchema() common.OpenAPIDefinition {
	object := *new(spec.Schema).Typed("object", "")
	return common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
		"domain":    *spec.StringProperty().WithDescription("the libvirt domain, in XML"),
		"decisions": *spec.ArrayProperty(&object).WithDescription("what the backend resolved, chose, and went without"),
		"late":      *spec.ArrayProperty(&object).WithDescription("what the guest sees and only a host knows"),
		"profiles":  *object.WithDescription("names of the profiles that had a part, strongest first, by frontend and backend"),
	}}}}
}

// optionsOf are the options of a verb.
func optionsOf(verb string) described {
	return described(strings.ToUpper(verb[:1]) + verb[1:] + "Options")
}

// optionsSchema describes options, with what all of them have.
func optionsSchema(properties map[string]spec.Schema) common.OpenAPIDefinition {
	properties["apiVersion"], properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	properties["dryRun"] = *spec.ArrayProperty(spec.StringProperty()).WithDescription("All: change nothing, and answer as if")
	return common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}}
}
