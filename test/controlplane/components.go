package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pollInterval is the pace at which a condition of the cluster is looked at.
const pollInterval = 50 * time.Millisecond

// controllers are those of kube-controller-manager that work without nodes and that admission,
// garbage collection or RBAC need.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"validatingadmissionpolicy-status-controller",
}

// startEtcd listens on sockets of the data folder, so that it needs no ports and other users cannot
// reach it. Data need not survive a power failure.
func (cp *ControlPlane) startEtcd() (err error) {
	const client, peer = "unix://etcd.sock", "unix://peer.sock"
	cp.etcd, err = cp.startProgram("etcd", []string{
		"--name=virtwright", "--data-dir=etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=virtwright=" + peer,
	})
	return err
}

// startAPIServer returns when /readyz answers ok and the default namespace is there.
func (cp *ControlPlane) startAPIServer(ctx context.Context) (err error) {
	args := cp.apiServerArgs()
	if cp.options.Audit {
		audit, err := cp.auditArgs()
		if err != nil {
			return err
		}
		args = append(args, audit...)
	}
	cp.apiServer, err = cp.startProgram("kube-apiserver", append(args, cp.options.APIServerArgs...))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	return cp.wait(ctx, "kube-apiserver to be ready", func(ctx context.Context) error {
		if err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
}

func (cp *ControlPlane) apiServerArgs() []string {
	return []string{
		"--etcd-servers=unix://etcd.sock",
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", cp.port),
		"--endpoint-reconciler-type=none",              // nothing routes to the kubernetes Service
		"--shutdown-watch-termination-grace-period=1s", // else open watches hold a restart up for a minute
		"--tls-cert-file=" + servingFile, "--tls-private-key-file=" + servingKeyFile,
		"--client-ca-file=" + caFile,
		"--authorization-mode=RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + accountKeyFile, "--service-account-signing-key-file=" + accountKeyFile,
		"--requestheader-client-ca-file=" + frontProxyCAFile, "--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontProxyFile, "--proxy-client-key-file=" + frontProxyKeyFile,
	}
}

// startControllers returns when the default namespace has its service account, which shows that the
// controllers run with credentials of their own. Programs from outside may lack
// kube-controller-manager; then it is left out.
func (cp *ControlPlane) startControllers(ctx context.Context) error {
	if !exists(filepath.Join(cp.assets, "kube-controller-manager")) {
		return nil
	}
	kubeconfig, err := cp.UserKubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	cp.controllers, err = cp.startProgram("kube-controller-manager", []string{
		"--kubeconfig=" + kubeconfig, "--use-service-account-credentials", "--leader-elect=false",
		"--secure-port=0", "--controllers=" + strings.Join(controllers, ","),
		"--service-account-private-key-file=" + accountKeyFile, "--root-ca-file=" + caFile,
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	return cp.wait(ctx, "kube-controller-manager to be ready", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (cp *ControlPlane) startProgram(name string, args []string) (*process, error) {
	return startProcess(filepath.Join(cp.assets, name), cp.dir.path, args)
}

// errHopeless says that waiting longer does not help.
var errHopeless = errors.New("it will not come about by itself")

// wait calls ready until it returns nil. It gives up when the context ends, when a program of the
// control plane has ended, or when the error is errHopeless.
func (cp *ControlPlane) wait(ctx context.Context, what string, ready func(context.Context) error) error {
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range cp.processes() {
			if ended := p.exited(); ended != nil {
				return ended
			}
		}
		if errors.Is(err, errHopeless) {
			return fmt.Errorf("cannot wait for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for %s: %w; last seen: %w", what, ctx.Err(), err)
		case <-time.After(pollInterval):
		}
	}
}

// RunProgram starts another program, which ends with the control plane, and returns when ready
// returns nil. Its log is NAME.log in Dir. Several programs may be started at once.
func (cp *ControlPlane) RunProgram(ctx context.Context, path string, args []string, ready func(context.Context) error) error {
	p, err := startProcess(path, cp.dir.path, args)
	if err != nil {
		return err
	}
	cp.mu.Lock()
	cp.others = append(cp.others, p)
	cp.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return cp.wait(ctx, p.name+" to be ready", ready)
}
