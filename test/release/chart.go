package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/kind/image"
)

// chartFolder is the folder of the chart, in the source.
const chartFolder = "charts/virtwright"

// What a packaged chart has in other words than the source.
var (
	versionLines  = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)
	managerDigest = regexp.MustCompile(`(?m)^(image:\n(?:  .*\n)*?  digest:) ""$`)
	// launcherDigest is two levels deep.
	launcherDigest = regexp.MustCompile(`(?m)^(launcher:\n  image:\n(?:    .*\n)*?    digest:) ""$`)
)

// writeChart packages the chart as helm does, with the version and with the digests of the images.
func (r *release) writeChart(context.Context) error {
	folder := filepath.Join(r.source, chartFolder)
	var files []image.File
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch name {
		case "Chart.yaml":
			content = versionLines.ReplaceAll(content, []byte("${1}: "+r.version))
		case "values.yaml":
			content, err = r.withDigests(content)
		}
		files = append(files, image.File{Path: filepath.ToSlash(name), Content: content})
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot read the chart: %w", err)
	}
	content, err := tarred(r.below(program, files))
	if err != nil {
		return err
	}
	return r.write(program+"-"+r.version+".tgz", content)
}

// withDigests sets the digests of the images and keeps the comments.
func (r *release) withDigests(values []byte) ([]byte, error) {
	values = managerDigest.ReplaceAll(values, []byte("${1} "+r.digests["manager"]))
	values = launcherDigest.ReplaceAll(values, []byte("${1} "+r.digests["launcher"]))
	type digested struct{ Digest string }
	var got struct {
		Image    digested
		Launcher struct{ Image digested }
	}
	if err := yaml.Unmarshal(values, &got); err != nil {
		return nil, fmt.Errorf("cannot set the digests of images: %w", err)
	}
	if got.Image.Digest == "" || got.Image.Digest != r.digests["manager"] || got.Launcher.Image.Digest != r.digests["launcher"] {
		return nil, fmt.Errorf("cannot set the digests of images: values.yaml has %+v, want %v", got, r.digests)
	}
	return values, nil
}
