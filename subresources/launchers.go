package subresources

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/subresources/decide"
)

const launcherTimeout = 15 * time.Second

// guestActions are the calls that end when the launcher has done them.
var guestActions = []v1alpha1.LauncherAction{
	v1alpha1.LauncherPause, v1alpha1.LauncherUnpause, v1alpha1.LauncherReset, v1alpha1.LauncherSoftReboot,
}

// launchers control the guests of VMIs through the launchers in their pods.
type launchers struct {
	cluster *cluster
	clients kubernetes.Interface
	config  *rest.Config
	streams *streams
	// closing ends when the server stops, and ends connections to guests.
	closing context.Context //nolint:containedctx // the time of the server, not of a request
	close   context.CancelFunc
}

func newLaunchers(c *cluster, clients kubernetes.Interface, config *rest.Config) *launchers {
	l := &launchers{cluster: c, clients: clients, config: config, streams: newStreams()}
	l.closing, l.close = context.WithCancel(context.Background())
	return l
}

func (l *launchers) act(r *http.Request, action v1alpha1.LauncherAction) error {
	name, err := subject(r)
	if err != nil {
		return err
	}
	dry, err := readOptions(r, name.Name, new(kubevirtv1.PauseOptions), func(o *kubevirtv1.PauseOptions) []string { return o.DryRun })
	if err != nil {
		return err
	}
	vmi, pod, err := l.find(r.Context(), name, action, dry)
	if err != nil || dry {
		return err
	}
	// Record the action in the condition even if the caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
	defer cancel()
	launcher, err := l.execute(ctx, vmi, pod, action)
	if err != nil {
		return err
	}
	launcher.end()
	if action != v1alpha1.LauncherPause && action != v1alpha1.LauncherUnpause {
		return nil
	}
	return l.cluster.change(ctx, name, false, (*cluster).readVMI, func(now *objects) (*decide.Changes, error) {
		if now.vmi.UID != vmi.UID {
			return &decide.Changes{}, nil
		}
		return decide.SetPaused(now.vmi, action == v1alpha1.LauncherPause, time.Now()), nil
	})
}

// find reads a VMI and its pod, and checks the action. Its errors are for the caller.
func (l *launchers) find(ctx context.Context, name types.NamespacedName, action v1alpha1.LauncherAction, dry bool) (*kubevirtv1.VirtualMachineInstance, *corev1.Pod, error) {
	now, err := l.cluster.readVMI(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := decide.CheckGuest(now.vmi, action, dry); err != nil {
		return nil, nil, err
	}
	pod, err := l.clients.CoreV1().Pods(name.Namespace).Get(ctx, podspec.Name(name.Name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podspec.Name(name.Name)}}
	case err != nil:
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("cannot read the pod of the VMI: %w", err))
	}
	return now.vmi, pod, decide.CheckPod(now.vmi, pod)
}

// A launcher is one execution of v1alpha1.LauncherControl. It is connected to the device of the
// action. Close ends its input only.
type launcher struct {
	io.WriteCloser
	io.Reader
	end context.CancelFunc
}

// execute starts an action. Without an error the launcher accepted it, and end must be called. Its
// errors are for the caller.
func (l *launchers) execute(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod, action v1alpha1.LauncherAction) (*launcher, error) {
	executor, err := l.executor(pod)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	// The client library would log each disconnect as an error.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	input, to := io.Pipe()
	from, output := io.Pipe()
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: output})
		_ = output.CloseWithError(err) // does not fail
		_ = input.CloseWithError(err)
	}()
	out := &launcher{WriteCloser: to, Reader: bufio.NewReader(from), end: func() {
		cancel()
		_ = to.Close() // does not fail
		_ = from.Close()
	}}
	late := time.AfterFunc(launcherTimeout, out.end)
	err = out.begin(action)
	switch inTime := late.Stop(); {
	case err == nil && inTime:
		return out, nil
	case !inTime:
		err = apierrors.NewTimeoutError("the launcher of the VMI did not answer", 0)
	}
	out.end()
	if rejected, ok := errors.AsType[conflict](err); ok {
		return nil, decide.VMIConflict(vmi, rejected.Error())
	}
	if apierrors.IsTimeout(err) {
		return nil, err
	}
	return nil, apierrors.NewInternalError(fmt.Errorf("%s failed: %w", action, err))
}

// executor executes v1alpha1.LauncherControl in a pod, over WebSockets or, if a proxy or API server
// does not support them, over SPDY.
func (l *launchers) executor(pod *corev1.Pod) (remotecommand.Executor, error) {
	url := l.clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: v1alpha1.ContainerLauncher, Command: v1alpha1.LauncherControl, Stdin: true, Stdout: true,
		}, kubernetesscheme.ParameterCodec).URL()
	sockets, err := remotecommand.NewWebSocketExecutor(l.config, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(l.config, http.MethodPost, url)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(sockets, spdy, httpstream.IsUpgradeFailure)
}

// A conflict is why a launcher rejected an action in the present state of the guest.
type conflict string

// Error returns the reason.
func (c conflict) Error() string { return string(c) }

// begin sends the action and reads the answer, which is one line.
func (l *launcher) begin(action v1alpha1.LauncherAction) error {
	if _, err := fmt.Fprintln(l, action); err != nil {
		return err
	}
	line, err := l.Reader.(*bufio.Reader).ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("no answer from the launcher: %w", err)
	}
	word, reason, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	switch word {
	case "ok":
		return nil
	case "conflict":
		return conflict(reason)
	}
	return errors.New(reason)
}
