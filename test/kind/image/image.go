// Package image writes container images into archives that "docker load", "ctr images import" and
// "kind load image-archive" read. It needs no container engine and no registry, and the same files
// give the same bytes: nothing in an archive depends on when, where or by whom it was written.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// created is the time of every file and image.
var created = time.Unix(0, 0).UTC()

// An Image is one image, for Linux on the processor of this program.
type Image struct {
	// Names are the full references that it gets where it is loaded, each with a tag, as
	// docker.io/library/example:v1.
	Names []string
	// Config is how containers of it run.
	Config Config
	// Layers are its files, the lowest first.
	Layers []Layer
}

// Config is how containers of an image run. Its fields are those of the OCI image specification.
type Config struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	StopSignal string   `json:"StopSignal,omitempty"`
}

// A Layer writes a tar archive, the same one at each call.
type Layer func(io.Writer) error

// Write writes an archive of images and returns the digest of each image's manifest, by which
// registries know it. The archive is an OCI image layout that has docker's manifest.json, too.
func Write(w io.Writer, images ...Image) ([]string, error) {
	out := &archive{tar: tar.NewWriter(w), written: map[string]bool{}}
	digests := make([]string, 0, len(images))
	for _, image := range images {
		manifest, err := out.add(image)
		if err != nil {
			return nil, fmt.Errorf("cannot write the image %v: %w", image.Names, err)
		}
		digests = append(digests, manifest)
	}
	if err := out.close(); err != nil {
		return nil, fmt.Errorf("cannot write the index of the images: %w", err)
	}
	return digests, nil
}

// descriptor points at a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// dockerImage is an entry of docker's manifest.json.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

const (
	schemaVersion = 2
	typeIndex     = "application/vnd.oci.image.index.v1+json"
	typeManifest  = "application/vnd.oci.image.manifest.v1+json"
	typeConfig    = "application/vnd.oci.image.config.v1+json"
	typeLayer     = "application/vnd.oci.image.layer.v1.tar"
	// nameAnnotation is where containerd looks for the name of an image. Each image also has a name
	// with its digest, because pods that name a digest only find such a name.
	nameAnnotation = "io.containerd.image.name"
	// tagAnnotation is where skopeo and oras look for the tag.
	tagAnnotation = "org.opencontainers.image.ref.name"
)

// archive is one that is being written.
type archive struct {
	tar *tar.Writer
	// written are the digests of the blobs that it has.
	written map[string]bool
	index   []descriptor
	docker  []dockerImage
}

// add writes the blobs of an image and returns the digest of its manifest.
func (a *archive) add(image Image) (string, error) {
	layers := make([]descriptor, 0, len(image.Layers))
	diffs := make([]string, 0, len(image.Layers))
	docker := dockerImage{RepoTags: image.Names}
	for _, layer := range image.Layers {
		written, err := a.blob(typeLayer, layer)
		if err != nil {
			return "", err
		}
		layers = append(layers, written)
		diffs = append(diffs, written.Digest)
		docker.Layers = append(docker.Layers, blobPath(written.Digest))
	}
	config, err := a.document(typeConfig, map[string]any{
		"created": created, "architecture": runtime.GOARCH, "os": "linux",
		"config": image.Config, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	if err != nil {
		return "", err
	}
	manifest, err := a.document(typeManifest, map[string]any{
		"schemaVersion": schemaVersion, "mediaType": typeManifest, "config": config, "layers": layers,
	})
	if err != nil {
		return "", err
	}
	for _, name := range image.Names {
		repository, tag := splitTag(name)
		manifest.Annotations = map[string]string{nameAnnotation: name, tagAnnotation: tag}
		a.index = append(a.index, manifest)
		manifest.Annotations = map[string]string{nameAnnotation: repository + "@" + manifest.Digest}
		a.index = append(a.index, manifest)
	}
	docker.Config = blobPath(config.Digest)
	a.docker = append(a.docker, docker)
	return manifest.Digest, nil
}

// splitTag splits a full reference into its repository and its tag.
func splitTag(name string) (repository, tag string) {
	colon := strings.LastIndex(name, ":")
	return name[:colon], name[colon+1:]
}

// document writes a blob of JSON.
func (a *archive) document(mediaType string, content any) (descriptor, error) {
	encoded, err := json.Marshal(content)
	if err != nil {
		return descriptor{}, err
	}
	return a.blob(mediaType, func(w io.Writer) error {
		_, err := w.Write(encoded)
		return err
	})
}

// blob writes what the layer writes, unless the archive has it: once into a hash, for a tar archive
// wants to know sizes beforehand, and once for good.
func (a *archive) blob(mediaType string, content Layer) (descriptor, error) {
	hash, size := sha256.New(), counter(0)
	if err := content(io.MultiWriter(hash, &size)); err != nil {
		return descriptor{}, err
	}
	sum := "sha256:" + hex.EncodeToString(hash.Sum(nil))
	blob := descriptor{MediaType: mediaType, Digest: sum, Size: int64(size)}
	if a.written[sum] {
		return blob, nil
	}
	a.written[sum] = true
	if err := a.tar.WriteHeader(header(blobPath(sum), blob.Size)); err != nil {
		return descriptor{}, err
	}
	return blob, content(a.tar)
}

// close writes what leads to the blobs.
func (a *archive) close() error {
	for _, file := range []struct {
		name    string
		content any
	}{
		{"index.json", map[string]any{"schemaVersion": schemaVersion, "mediaType": typeIndex, "manifests": a.index}},
		{"manifest.json", a.docker},
		{"oci-layout", map[string]any{"imageLayoutVersion": "1.0.0"}},
	} {
		encoded, err := json.Marshal(file.content)
		if err != nil {
			return err
		}
		if err := a.tar.WriteHeader(header(file.name, int64(len(encoded)))); err != nil {
			return err
		}
		if _, err := io.Copy(a.tar, bytes.NewReader(encoded)); err != nil {
			return err
		}
	}
	return a.tar.Close()
}

func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: created, Format: tar.FormatPAX}
}

// blobPath is where an OCI image layout has a blob.
func blobPath(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

// counter counts the bytes that are written to it.
type counter int64

// Write counts.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
