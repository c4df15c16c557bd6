package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// IsKustomization reports whether a folder has a kustomization.
func IsKustomization(folder string) bool {
	return slices.ContainsFunc(konfig.RecognizedKustomizationFileNames(), func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	})
}

// Kustomize returns the objects that a kustomization builds.
func Kustomize(folder string) ([]Object, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("cannot build kustomization %s: %w", folder, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("cannot print kustomization %s: %w", folder, err)
	}
	var out []Object
	for _, d := range splitYAML("kustomization "+folder, text, false) {
		found, err := d.Objects()
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}
