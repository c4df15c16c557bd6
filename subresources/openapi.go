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

func openAPI() (*common.Config, *common.OpenAPIV3Config) {
	namer := openapi.NewDefinitionNamer(scheme())
	v2, v3 := genericapiserver.DefaultOpenAPIConfig(definitions, namer), genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	v2.Info.Title, v3.Info.Title = Group, Group
	return v2, v3
}

// definitions returns the definitions of requests and answers. All of Kubernetes' would take a
// megabyte.
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
		"gracePeriod": *spec.Int64Property().WithDescription("seconds until the guest is killed"),
	})
	out[optionsOf("restart").OpenAPIModelName()] = optionsSchema(map[string]spec.Schema{
		"gracePeriodSeconds": *spec.Int64Property().WithDescription("0 restarts by force; no other value is supported"),
	})
	out[rendered.OpenAPIModelName()] = renderedSchema()
	out[anyVM.OpenAPIModelName()] = common.OpenAPIDefinition{Schema: *new(spec.Schema).Typed("object", "").
		WithDescription("a VirtualMachine of kubevirt.io")}
	return out
}

// A model is the name of a type in OpenAPI. KubeVirt's Go types of options have the name of an
// embedded type.
type model string

const (
	kubevirtModels       = "io.kubevirt.api.core.v1."
	anyVM          model = kubevirtModels + "AnyVirtualMachine"            // a VirtualMachine, which kubevirt.io defines
	rendered       model = "dev.virtwright.subresources.v1alpha1.Rendered" // a domainAnswer
)

func (m model) OpenAPIModelName() string { return string(m) }

func renderedSchema() common.OpenAPIDefinition {
	object := *new(spec.Schema).Typed("object", "")
	return common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
		"domain":    *spec.StringProperty().WithDescription("the libvirt domain, in XML"),
		"decisions": *spec.ArrayProperty(&object).WithDescription("decisions of the backend"),
		"late":      *spec.ArrayProperty(&object).WithDescription("guest-visible values that depend on the host"),
		"profiles":  *object.WithDescription("names of the used profiles, strongest first, by frontend and backend"),
	}}}}
}

func optionsOf(verb string) model {
	return model(kubevirtModels + strings.ToUpper(verb[:1]) + verb[1:] + "Options")
}

// optionsSchema adds the fields that all options have.
func optionsSchema(properties map[string]spec.Schema) common.OpenAPIDefinition {
	properties["apiVersion"], properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	properties["dryRun"] = *spec.ArrayProperty(spec.StringProperty()).WithDescription("All: validate the request, but change nothing")
	return common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}}
}
