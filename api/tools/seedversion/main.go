// Command seedversion adds version v1alpha2 to the CRD of VirtualMachine. It differs from v1 in two
// fields: volumeName of disks and virtualMachine of status. It is not served until a webhook
// converts it. KubeVirt no longer has Go types of that version, from which it could be generated.
package main

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: seedversion CRD.yaml")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "seedversion:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	seed, err := seedOf(versions)
	if err != nil {
		return fmt.Errorf("cannot add a version to %s: %w", path, err)
	}
	spec["versions"] = append(versions, seed)
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return os.WriteFile(path, append([]byte("---\n"), out...), 0o644)
}

// seedOf creates v1alpha2 from v1.
func seedOf(versions []any) (map[string]any, error) {
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["name"] != "v1" {
			continue
		}
		seed := clone(version).(map[string]any)
		seed["name"], seed["served"], seed["storage"] = "v1alpha2", false, false
		schema, err := properties(seed, "schema", "openAPIV3Schema")
		if err != nil {
			return nil, err
		}
		return seed, extend(schema)
	}
	return nil, errors.New("it has no version v1")
}

func extend(schema map[string]any) error {
	disk, err := properties(schema, "spec", "template", "spec", "domain", "devices", "disks")
	if err != nil {
		return err
	}
	disk["volumeName"] = map[string]any{
		"type":        "string",
		"description": "volumeName is the name of the volume of the disk. Default: the name of the disk.",
	}
	status, err := properties(schema, "status")
	if err != nil {
		return err
	}
	status["virtualMachine"] = map[string]any{
		"type":        "string",
		"description": "virtualMachine is the name of the VirtualMachineInstance, once it is created.",
	}
	return nil
}

// properties returns the fields of the schema at a path, or of its items.
func properties(from map[string]any, names ...string) (map[string]any, error) {
	for _, name := range names {
		next, ok := from[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("there is no %s", name)
		}
		if items, ok := next["items"].(map[string]any); ok {
			next = items
		}
		if fields, ok := next["properties"].(map[string]any); ok {
			next = fields
		}
		from = next
	}
	return from, nil
}

// clone copies a schema without descriptions, because API servers keep every version in memory.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if text, ok := value.(string); ok && key == "description" && text != "" {
				continue
			}
			out[key] = clone(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	}
	return v
}
