package presets

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

func TestSmoke(t *testing.T) {
	var cs []*Compiled
	files, _ := filepath.Glob("../examples/presets/*.yaml")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, doc := range strings.Split(string(b), "\n---") {
			var p v1alpha1.ClusterVirtualMachinePreset
			if err := yaml.Unmarshal([]byte(doc), &p); err != nil {
				t.Fatal(f, err)
			}
			if p.Kind == "" {
				continue
			}
			c, errs := Compile(&p)
			if len(errs) > 0 {
				t.Fatal(f, errs)
			}
			cs = append(cs, c)
		}
	}
	s := NewSnapshot(cs, nil)
	vms, _ := filepath.Glob("../examples/vms/*.yaml")
	for _, f := range vms {
		b, _ := os.ReadFile(f)
		for _, doc := range strings.Split(string(b), "\n---") {
		j, _ := yaml.YAMLToJSON([]byte(doc))
		var m map[string]any
		json.Unmarshal(j, &m)
		if m["kind"] == nil { continue }
		e := Engine{Platform: &Platform{}}
		req := Request{Kind: Kind(m["kind"].(string)), Object: j, Namespace: Namespace{Name: "lab", Labels: map[string]string{"tier": "prod"}}}
		r, err := e.Resolve(context.Background(), s, req)
		if err != nil {
			fmt.Println(f, "ERR", err)
			continue
		}
		y, _ := yaml.Marshal(r.Object())
		fmt.Println("=====", f)
		fmt.Println(string(b))
		fmt.Println("-----")
		fmt.Println(string(y))
		for _, w := range r.Warnings {
			fmt.Println("W:", w)
		}
		pj, _ := json.Marshal(r.Patch)
		fmt.Println("PATCH", string(pj))
		fmt.Println("AUDIT", r.Audit)
		out, _ := json.Marshal(r.Object())
		req.Object = out
		r2, err := e.Resolve(context.Background(), s, req)
		if err != nil { t.Fatal(err) }
		if len(r2.Patch) > 0 { pj, _ := json.Marshal(r2.Patch); t.Error(f, "not idempotent", string(pj)) }
		}
	}
}
