// Package kustomize builds kustomizations.
package kustomize

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/virtwright/virtwright/simulate/manifest"
)

// Contains reports whether a folder contains a kustomization file.
func Contains(folder string) bool {
	return slices.ContainsFunc(konfig.RecognizedKustomizationFileNames(), func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	})
}

// Build returns the objects that a kustomization builds.
func Build(folder string) ([]manifest.Object, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("cannot build kustomization %s: %w", folder, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("cannot print kustomization %s: %w", folder, err)
	}
	return manifest.Parse("kustomization "+folder, text)
}
