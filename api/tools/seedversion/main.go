// Command seedversion adds version v1alpha2 to the CRD of VirtualMachine: the
// form of v1, in which a disk also has volumeName and status has virtualMachine.
// It is not served until somebody can convert it.
//
// KubeVirt has no Go types of that version any more that a generator could read.
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

// seedOf is v1alpha2, made from v1.
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
		"description": "volumeName is the name of the volume that the disk is made of. Where it is left out, it is the name of the disk.",
	}
	status, err := properties(schema, "status")
	if err != nil {
		return err
	}
	status["virtualMachine"] = map[string]any{
		"type":        "string",
		"description": "virtualMachine is the name of the instance, once it is created.",
	}
	return nil
}

// properties goes down a schema by names of fields and returns the fields of
// what it comes to, or of its items.
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

// clone copies a schema without the descriptions, which v1 has: an API server
// keeps every version in memory.
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
