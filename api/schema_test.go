package api_test

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
)

// The API server drops what a schema does not know, so a field that the Go types have and the CRD
// lacks would vanish from what users write. This also notices a new kubevirt.io/api without a new
// `go generate`.
func TestSchemasKnowEveryField(t *testing.T) {
	kubeVirt := []string{"v1", "v1alpha3"}
	cases := map[string]struct {
		versions []string
		spec     any
		status   any
	}{
		"kubevirt.io_virtualmachines.yaml":                 {kubeVirt, kubevirtv1.VirtualMachineSpec{}, kubevirtv1.VirtualMachineStatus{}},
		"kubevirt.io_virtualmachineinstances.yaml":         {kubeVirt, kubevirtv1.VirtualMachineInstanceSpec{}, kubevirtv1.VirtualMachineInstanceStatus{}},
		"kubevirt.io_virtualmachineinstancepresets.yaml":   {kubeVirt, kubevirtv1.VirtualMachineInstancePresetSpec{}, nil},
		"virtwright.dev_virtualmachinepresets.yaml":        {[]string{"v1alpha1"}, v1alpha1.PresetSpec{}, v1alpha1.PresetStatus{}},
		"virtwright.dev_clustervirtualmachinepresets.yaml": {[]string{"v1alpha1"}, v1alpha1.PresetSpec{}, v1alpha1.PresetStatus{}},
		"ssp.kubevirt.io_virtualmachinetemplaterequests.yaml": {
			[]string{"v1alpha1"}, sspv1alpha1.VirtualMachineTemplateRequestSpec{}, sspv1alpha1.VirtualMachineTemplateRequestStatus{},
		},
		"virtwright.dev_frontendprofiles.yaml": {[]string{"v1alpha1"}, v1alpha1.FrontendProfileSpec{}, nil},
		"virtwright.dev_backendprofiles.yaml":  {[]string{"v1alpha1"}, v1alpha1.BackendProfileSpec{}, nil},
	}
	for file, tc := range cases {
		for _, versionName := range tc.versions {
			t.Run(file+"/"+versionName, func(t *testing.T) {
				root := schemaOf(t, file, versionName)
				missing := unknownFields("spec", root.Properties["spec"], reflect.TypeOf(tc.spec))
				if tc.status != nil {
					missing = append(missing, unknownFields("status", root.Properties["status"], reflect.TypeOf(tc.status))...)
				}
				for _, path := range missing {
					t.Errorf("the schema does not know %s", path)
				}
			})
		}
	}
}

// These three stay open in KubeVirt, and templates and clocks of users rely on it.
func TestKubeVirtPlacesStayOpen(t *testing.T) {
	cases := map[string][]string{
		"kubevirt.io_virtualmachines.yaml": {
			"spec.template.metadata", "spec.dataVolumeTemplates.metadata", "spec.template.spec.domain.clock",
		},
		"kubevirt.io_virtualmachineinstances.yaml":       {"spec.domain.clock"},
		"kubevirt.io_virtualmachineinstancepresets.yaml": {"spec.domain.clock"},
	}
	for file, paths := range cases {
		for _, path := range paths {
			if !isOpen(at(schemaOf(t, file, "v1"), path)) {
				t.Errorf("%s: %s drops unknown fields", file, path)
			}
		}
	}
}

// at is the schema under a dotted path, passing through lists.
func at(schema apiextensionsv1.JSONSchemaProps, path string) apiextensionsv1.JSONSchemaProps {
	for name := range strings.SplitSeq(path, ".") {
		if schema.Items != nil {
			schema = *schema.Items.Schema
		}
		schema = schema.Properties[name]
	}
	return schema
}

func isOpen(schema apiextensionsv1.JSONSchemaProps) bool {
	return schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// isLeaf says whether a type has no fields of its own in JSON.
func isLeaf(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() != reflect.Struct || p.Implements(marshaler) || p.Implements(textMarshaler)
}

// unknownFields lists the JSON fields of a type, at any depth, for which the schema has no place.
func unknownFields(path string, schema apiextensionsv1.JSONSchemaProps, t reflect.Type) []string {
	for schema.Items != nil || schema.AdditionalProperties != nil || t.Kind() == reflect.Pointer {
		switch {
		case t.Kind() == reflect.Pointer:
			t = t.Elem()
		case schema.Items != nil:
			schema, t = *schema.Items.Schema, t.Elem()
		default:
			schema, t = *schema.AdditionalProperties.Schema, t.Elem()
		}
	}
	if isOpen(schema) || isLeaf(t) {
		return nil
	}
	var missing []string
	for _, f := range jsonFields(t) {
		child, known := schema.Properties[f.name]
		if !known {
			missing = append(missing, path+"."+f.name)
			continue
		}
		missing = append(missing, unknownFields(path+"."+f.name, child, f.typ)...)
	}
	return missing
}

type jsonField struct {
	name string
	typ  reflect.Type
}

// jsonFields lists the fields of a struct under their JSON names, those of inlined structs among
// them.
func jsonFields(t reflect.Type) []jsonField {
	var fields []jsonField
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || options == "inline"):
			inlined := f.Type
			if inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			fields = append(fields, jsonFields(inlined)...)
		default:
			fields = append(fields, jsonField{name, f.Type})
		}
	}
	return fields
}
