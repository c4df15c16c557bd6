package files

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

// KubeVirt's labels of ISO images, by which guests find them.
const (
	labelNoCloud     = "cidata"
	labelConfigDrive = "config-2"
	labelSysprep     = "unattendCD"
	labelData        = "cfgdata"
)

// A Device is a tagged device in cloud-init's metadata, in KubeVirt's format.
type Device struct {
	Type    string   `json:"type"`
	Bus     string   `json:"bus"`
	Address string   `json:"address"`
	MAC     string   `json:"mac,omitempty"`
	Serial  string   `json:"serial,omitempty"`
	Tags    []string `json:"tags"`
}

// Describe replaces the ISO images of cloud-init volumes by ones that describe the devices.
func Describe(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, devices []Device) error {
	for i := range vmi.Spec.Volumes {
		v := &volume{Volume: &vmi.Spec.Volumes[i], vmi: vmi}
		if len(devices) == 0 || v.CloudInitNoCloud == nil && v.CloudInitConfigDrive == nil {
			continue
		}
		if _, err := v.data(ctx, devices); err != nil {
			return fmt.Errorf("spec.volumes[%d]: %w", i, err)
		}
	}
	return nil
}

// data creates the ISO image of a volume of files.
func (v *volume) data(ctx context.Context, devices []Device) (*domain.VolumeFacts, error) {
	var files map[string][]byte
	var err error
	var label string
	id, hostname := v.vmi.Name+"."+v.vmi.Namespace, Hostname(v.vmi)
	switch {
	case v.CloudInitNoCloud != nil:
		label = labelNoCloud
		files, err = v.cloudInit(v.CloudInitNoCloud, cloudFormat{
			"meta-data", "user-data", "network-config", map[string]any{"instance-id": id, "local-hostname": hostname},
		}, devices)
	case v.CloudInitConfigDrive != nil:
		label = labelConfigDrive
		files, err = v.cloudInit((*kubevirtv1.CloudInitNoCloudSource)(v.CloudInitConfigDrive), cloudFormat{
			"openstack/latest/meta_data.json", "openstack/latest/user_data", "openstack/latest/network_data.json",
			map[string]any{"instance_id": id, "uuid": id, "hostname": hostname, "local_hostname": hostname, "name": v.vmi.Name},
		}, devices)
	default:
		label = v.label()
		files, err = mounted(v.folder())
	}
	if err != nil {
		return nil, err
	}
	image := filepath.Join(DataFolder, v.Name+".iso")
	if err := makeISO(ctx, image, label, files); err != nil {
		return nil, err
	}
	return look(image)
}

// label is the label of the image of a volume that the kubelet mounts.
func (v *volume) label() string {
	own := ""
	switch {
	case v.Sysprep != nil:
		return labelSysprep
	case v.ConfigMap != nil:
		own = v.ConfigMap.VolumeLabel
	case v.Secret != nil:
		own = v.Secret.VolumeLabel
	case v.DownwardAPI != nil:
		own = v.DownwardAPI.VolumeLabel
	}
	return cmp.Or(own, labelData)
}

// mounted reads the files that the kubelet has written to a folder, below a link "..data".
func mounted(folder string) (map[string][]byte, error) {
	root, err := filepath.EvalSymlinks(filepath.Join(folder, "..data"))
	if errors.Is(err, fs.ErrNotExist) {
		root, err = folder, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		out[name], err = os.ReadFile(filepath.Join(root, name))
		return err
	})
	return out, err
}

// read reads userData or networkData from its source.
func (v *volume) read(name, plain, encoded string, secret *corev1.LocalObjectReference) ([]byte, error) {
	switch {
	case plain != "":
		return []byte(plain), nil
	case encoded != "":
		out, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("%sBase64: %w", name, err)
		}
		return out, nil
	case secret == nil:
		return nil, nil
	}
	folder := filepath.Join(v1alpha1.CloudInitFolder, v.Name, strings.TrimSuffix(name, "Data"))
	for _, key := range []string{strings.ToLower(name), name} {
		out, err := os.ReadFile(filepath.Join(folder, key))
		if !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
	}
	return nil, fmt.Errorf("the Secret %s must have the key %s", secret.Name, strings.ToLower(name))
}

// Hostname returns the hostname of a VMI's guest.
func Hostname(vmi *kubevirtv1.VirtualMachineInstance) string {
	name, _, _ := strings.Cut(vmi.Name, ".")
	return cmp.Or(vmi.Spec.Hostname, name)
}

// A cloudFormat is one of the formats of cloud-init's data.
type cloudFormat struct {
	// meta, user and network are the names of files.
	meta, user, network string
	metadata            map[string]any // the contents of the first file, apart from devices
}

func (v *volume) cloudInit(c *kubevirtv1.CloudInitNoCloudSource, format cloudFormat, devices []Device) (map[string][]byte, error) {
	user, err := v.read("userData", c.UserData, c.UserDataBase64, c.UserDataSecretRef)
	network, networkErr := v.read("networkData", c.NetworkData, c.NetworkDataBase64, c.NetworkDataSecretRef)
	if len(devices) > 0 {
		format.metadata["devices"] = devices
	}
	meta, metaErr := json.Marshal(format.metadata)
	files := map[string][]byte{format.meta: meta, format.user: user}
	if len(network) > 0 {
		files[format.network] = network
	}
	return files, errors.Join(err, networkErr, metaErr)
}

// isoPrograms create ISO images and have the same flags.
var isoPrograms = []string{"xorrisofs", "genisoimage", "mkisofs"}

// makeISO creates an ISO image of files, by their paths in it, with a label.
func makeISO(ctx context.Context, image, label string, files map[string][]byte) error {
	program := ""
	for _, name := range isoPrograms {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		return fmt.Errorf("cannot create an ISO image: cannot find any of %s", strings.Join(isoPrograms, ", "))
	}
	tree, err := os.MkdirTemp(filepath.Dir(image), ".unfinished-")
	if err != nil {
		return fmt.Errorf("cannot create an ISO image: %w", err)
	}
	defer func() { _ = os.RemoveAll(tree) }()
	for name, content := range files {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("cannot put %q into an ISO image: it is not below the root", name)
		}
		file := filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, content, 0o600)); err != nil {
			return fmt.Errorf("cannot create an ISO image: %w", err)
		}
	}
	return replace(image, func(unfinished string) error {
		return run(ctx, program, "-quiet", "-o", unfinished, "-V", label, "-J", "-joliet-long", "-r", tree)
	})
}
