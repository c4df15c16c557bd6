package files

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/domain"
)

// Labels of images, as guests look for them. Those are KubeVirt's.
const (
	labelNoCloud     = "cidata"
	labelConfigDrive = "config-2"
	labelSysprep     = "unattendCD"
	labelData        = "cfgdata"
)

// image makes an ISO image of files and says what it is.
func (v *volume) image(ctx context.Context, at *field.Path, label string, files map[string][]byte) (*domain.VolumeFacts, error) {
	file, err := v.path(FolderData, ".iso")
	if err != nil {
		return nil, err
	}
	if err := makeISO(ctx, file, label, files); err != nil {
		return nil, &Trouble{ReasonNotMade, fmt.Errorf("%s: %w", at, err)}
	}
	facts, err := look(file)
	if err != nil {
		return nil, &Trouble{ReasonNotMade, fmt.Errorf("%s: %w", at, err)}
	}
	return facts, nil
}

// read is the content of something that a volume names. What is optional may
// not be there.
func (v *volume) read(ctx context.Context, at *field.Path, kind, name string, optional bool) (map[string][]byte, error) {
	content, err := v.store.Content(ctx, kind, v.vmi.Namespace, name)
	switch {
	case apierrors.IsNotFound(err) && optional:
		return map[string][]byte{}, nil
	case apierrors.IsForbidden(err):
		return nil, &Trouble{ReasonNotRead, field.Forbidden(at, fmt.Sprintf("this agent may not read the %s %s; its namespace must have the label virtwright.dev/node-secrets, and a RoleBinding for it", kind, name))}
	case err != nil:
		return nil, &Trouble{ReasonNotRead, fmt.Errorf("%s: %w", at, err)}
	}
	return content, nil
}

func (v *volume) ofConfigMap(ctx context.Context) (*domain.VolumeFacts, error) {
	at := v.at.Child("configMap")
	files, err := v.read(ctx, at, "configMap", v.ConfigMap.Name, ptr.Deref(v.ConfigMap.Optional, false))
	if err != nil {
		return nil, err
	}
	return v.image(ctx, at, label(v.ConfigMap.VolumeLabel), files)
}

func (v *volume) ofSecret(ctx context.Context) (*domain.VolumeFacts, error) {
	at := v.at.Child("secret")
	files, err := v.read(ctx, at, "secret", v.Secret.SecretName, ptr.Deref(v.Secret.Optional, false))
	if err != nil {
		return nil, err
	}
	return v.image(ctx, at, label(v.Secret.VolumeLabel), files)
}

func label(given string) string {
	if given == "" {
		return labelData
	}
	return given
}

func (v *volume) ofServiceAccount(ctx context.Context) (*domain.VolumeFacts, error) {
	at := v.at.Child("serviceAccount")
	files, err := v.read(ctx, at, "serviceAccount", v.ServiceAccount.ServiceAccountName, false)
	if err != nil {
		return nil, err
	}
	return v.image(ctx, at, labelData, files)
}

func (v *volume) unattended(ctx context.Context) (*domain.VolumeFacts, error) {
	at := v.at.Child("sysprep")
	var kind, name string
	switch {
	case v.Sysprep.Secret != nil:
		at, kind, name = at.Child("secret"), "secret", v.Sysprep.Secret.Name
	case v.Sysprep.ConfigMap != nil:
		at, kind, name = at.Child("configMap"), "configMap", v.Sysprep.ConfigMap.Name
	default:
		return nil, v.refuse(field.Required(at, "name a secret or a configMap"))
	}
	files, err := v.read(ctx, at, kind, name, false)
	if err != nil {
		return nil, err
	}
	return v.image(ctx, at, labelSysprep, files)
}

// ofFields has of the instance what its fields say.
func (v *volume) ofFields(ctx context.Context) (*domain.VolumeFacts, error) {
	at, files := v.at.Child("downwardAPI"), map[string][]byte{}
	for i := range v.DownwardAPI.Fields {
		item, at := &v.DownwardAPI.Fields[i], at.Child("fields").Index(i)
		if item.FieldRef == nil {
			return nil, v.refuse(field.Forbidden(at, "only a fieldRef can be had: there is no container whose resources could be told"))
		}
		value, known := v.field(item.FieldRef)
		if !known {
			return nil, v.refuse(field.NotSupported(at.Child("fieldRef", "fieldPath"), item.FieldRef.FieldPath,
				[]string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations", "metadata.labels['KEY']", "metadata.annotations['KEY']"}))
		}
		files[item.Path] = []byte(value)
	}
	return v.image(ctx, at, label(v.DownwardAPI.VolumeLabel), files)
}

// field is a field of the instance, written as Kubernetes writes it in files.
func (v *volume) field(ref *corev1.ObjectFieldSelector) (value string, known bool) {
	path, key, subscript := strings.Cut(ref.FieldPath, "['")
	key, closed := strings.CutSuffix(key, "']")
	maps := map[string]map[string]string{"metadata.labels": v.vmi.Labels, "metadata.annotations": v.vmi.Annotations}
	if of, is := maps[path]; is {
		switch {
		case subscript && closed:
			return of[key], true
		case !subscript:
			return lines(of), true
		}
		return "", false
	}
	value, known = map[string]string{
		"metadata.name": v.vmi.Name, "metadata.namespace": v.vmi.Namespace, "metadata.uid": string(v.vmi.UID),
	}[ref.FieldPath]
	return value, known
}

// lines is a map as key="value", a line each.
func lines(of map[string]string) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&out, "%s=%q\n", key, of[key])
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// A cloudData is what one of the two sources of cloud-init data says.
type cloudData struct {
	plain, encoded, networkPlain, networkEncoded string
	secret, networkSecret                        *corev1.LocalObjectReference
}

// resolve reads user data and network data, from where they are.
func (v *volume) resolve(ctx context.Context, at *field.Path, d cloudData) (user, network []byte, err error) {
	user, err = v.one(ctx, at, "userData", "userdata", source{d.plain, d.encoded, d.secret})
	if err != nil {
		return nil, nil, err
	}
	network, err = v.one(ctx, at, "networkData", "networkdata", source{d.networkPlain, d.networkEncoded, d.networkSecret})
	return user, network, err
}

// A source is where cloud-init data are.
type source struct {
	plain, encoded string
	secret         *corev1.LocalObjectReference
}

func (v *volume) one(ctx context.Context, at *field.Path, name, key string, s source) ([]byte, error) {
	switch {
	case s.plain != "":
		return []byte(s.plain), nil
	case s.encoded != "":
		out, err := base64.StdEncoding.DecodeString(s.encoded)
		if err != nil {
			return nil, v.refuse(field.Invalid(at.Child(name+"Base64"), "…", "must be base64"))
		}
		return out, nil
	case s.secret == nil:
		return nil, nil
	}
	at = at.Child(map[string]string{"userData": "secretRef", "networkData": "networkDataSecretRef"}[name])
	content, err := v.read(ctx, at, "secret", s.secret.Name, false)
	if err != nil {
		return nil, err
	}
	for _, k := range []string{key, name} {
		if out, ok := content[k]; ok {
			return out, nil
		}
	}
	return nil, v.lacks(ReasonNotRead, at, s.secret.Name, fmt.Sprintf("the secret must have the key %s", key))
}

// hostname is what the guest is to call itself.
func (v *volume) hostname() string {
	if v.vmi.Spec.Hostname != "" {
		return v.vmi.Spec.Hostname
	}
	name, _, _ := strings.Cut(v.vmi.Name, ".")
	return name
}

// noCloud makes an image as cloud-init's data source NoCloud reads it.
func (v *volume) noCloud(ctx context.Context) (*domain.VolumeFacts, error) {
	at, c := v.at.Child("cloudInitNoCloud"), v.CloudInitNoCloud
	user, network, err := v.resolve(ctx, at, cloudData{c.UserData, c.UserDataBase64, c.NetworkData, c.NetworkDataBase64, c.UserDataSecretRef, c.NetworkDataSecretRef})
	if err != nil {
		return nil, err
	}
	meta, err := json.Marshal(map[string]string{"instance-id": v.vmi.Name + "." + v.vmi.Namespace, "local-hostname": v.hostname()})
	if err != nil {
		return nil, &Trouble{ReasonNotMade, err}
	}
	files := map[string][]byte{"meta-data": meta, "user-data": user}
	if len(network) > 0 {
		files["network-config"] = network
	}
	return v.image(ctx, at, labelNoCloud, files)
}

// configDrive makes an image as cloud-init's data source ConfigDrive reads it.
func (v *volume) configDrive(ctx context.Context) (*domain.VolumeFacts, error) {
	at, c := v.at.Child("cloudInitConfigDrive"), v.CloudInitConfigDrive
	user, network, err := v.resolve(ctx, at, cloudData{c.UserData, c.UserDataBase64, c.NetworkData, c.NetworkDataBase64, c.UserDataSecretRef, c.NetworkDataSecretRef})
	if err != nil {
		return nil, err
	}
	id := v.vmi.Name + "." + v.vmi.Namespace
	meta, err := json.Marshal(map[string]string{"instance_id": id, "uuid": id, "hostname": v.hostname(), "local_hostname": v.hostname(), "name": v.vmi.Name})
	if err != nil {
		return nil, &Trouble{ReasonNotMade, err}
	}
	files := map[string][]byte{"openstack/latest/meta_data.json": meta, "openstack/latest/user_data": user}
	if len(network) > 0 {
		files["openstack/latest/network_data.json"] = network
	}
	return v.image(ctx, at, labelConfigDrive, files)
}
