package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/weft-fabric/weft/internal/app"
)

// receiver is a collector of traces.
type receiver struct {
	url string

	mu    sync.Mutex
	spans []*received
}

// received is a span, and the process that it came from.
type received struct {
	*otlp.Span
	resource []*common.KeyValue
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &export) != nil {
			t.Errorf("%s %s is no export of traces: %v", req.Method, req.URL, err)
			http.Error(w, "no export of traces", http.StatusBadRequest)
			return
		}
		r.take(&export)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) take(export *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range export.ResourceSpans {
		for _, scope := range from.ScopeSpans {
			for _, span := range scope.Spans {
				r.spans = append(r.spans, &received{span, from.Resource.Attributes})
			}
		}
	}
}

// named are the spans of a name, in the order of their beginnings.
func (r *receiver) named(name string) (spans []*received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.spans {
		if span.Name == name {
			spans = append(spans, span)
		}
	}
	slices.SortFunc(spans, func(a, b *received) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return spans
}

// attributeOf is an attribute as a text.
func attributeOf(attributes []*common.KeyValue, name string) string {
	for _, a := range attributes {
		if a.Key != name {
			continue
		}
		if _, ok := a.Value.Value.(*common.AnyValue_IntValue); ok {
			return strconv.FormatInt(a.Value.GetIntValue(), 10)
		}
		return a.Value.GetStringValue()
	}
	return ""
}

// TestTraceOfAJobThatIsTriedTwice follows one job through three processes: whoever
// enqueues it, and the worker whose command fails first and then does not.
func TestTraceOfAJobThatIsTriedTwice(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	s, r := newSite(t), newReceiver(t)
	environ := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.url, "WEFT_BACKOFF_INITIAL=10ms"}
	seen := filepath.Join(t.TempDir(), "seen")
	work := spawnWith(t, append(environ, "OTEL_SERVICE_NAME=hashers"), s.args([]string{
		"work", "hash", "--id", "w-1", "--", "sh", "-c", `echo "$TRACEPARENT" >>"` + seen + `"; test "$WEFT_ATTEMPT" = 2`,
	})...)
	enqueued := spawnWith(t, append(environ, "TRACEPARENT=00-"+trace+"-"+parent+"-01"),
		s.args([]string{"enqueue", "hash", "--input-ref", "data:,x", "--id", "a"})...)
	enqueued.wait().want(t, app.ExitDone)
	s.weft(t, "job", "wait", "a", "--timeout", patience.String()).want(t, app.ExitDone)
	work.signal(syscall.SIGTERM)
	work.wait().want(t, app.ExitDone) // which exports what is left

	var enqueues, attempts []*received
	poll(t, "three spans", func() bool {
		enqueues, attempts = r.named("enqueue hash"), r.named("attempt hash")
		return len(enqueues) == 1 && len(attempts) == 2
	})
	enqueue := enqueues[0]
	if got := hex.EncodeToString(enqueue.ParentSpanId); got != parent {
		t.Errorf("the enqueue is a child of %s, want the span of the environment", got)
	}
	if got := attributeOf(enqueue.resource, "service.name"); got != "weft" {
		t.Errorf("the enqueue is of the service %s", got)
	}
	commands := linesOf(seen)
	for i, span := range attempts {
		if got := hex.EncodeToString(span.TraceId); got != trace {
			t.Errorf("attempt %d is in the trace %s, want %s", i+1, got, trace)
		}
		if hex.EncodeToString(span.ParentSpanId) != hex.EncodeToString(enqueue.SpanId) {
			t.Errorf("attempt %d is no child of the enqueue", i+1)
		}
		if want := "00-" + trace + "-" + hex.EncodeToString(span.SpanId) + "-01"; len(commands) != 2 || commands[i] != want {
			t.Errorf("the commands have seen %q, want %s at attempt %d", commands, want, i+1)
		}
		for name, want := range map[string]string{
			"weft.job.id": "a", "weft.stage": "hash", "weft.worker": "w-1",
			"weft.outcome": []string{"failed", "completed"}[i], "weft.attempt": []string{"1", "2"}[i], "weft.fence": []string{"1", "2"}[i],
		} {
			if got := attributeOf(span.Attributes, name); got != want {
				t.Errorf("attempt %d: %s is %q, want %q", i+1, name, got, want)
			}
		}
		if got := attributeOf(span.resource, "service.name"); got != "hashers" {
			t.Errorf("attempt %d is of the service %s", i+1, got)
		}
	}
	if attempts[0].Status.Code != otlp.Status_STATUS_CODE_ERROR || attempts[1].GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the statuses are %v and %v", attempts[0].Status, attempts[1].Status)
	}
}

func TestTracesByAProtocolThatIsNotSpoken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := spawnWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		s.args([]string{"job", "ls"})...)
	p.wait().want(t, app.ExitUsage, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf")
}

// A collector that is away must cost nothing but spans.
func TestTracesWithoutACollector(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := spawnWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + closedAddress(t)},
		s.args([]string{"enqueue", "hash", "--input-ref", "data:,x", "--id", "a"})...)
	if got := p.wait().want(t, app.ExitDone).out; got != "a\n" {
		t.Errorf("it printed %q", got)
	}
	if s.get(t, "a").Trace.IsZero() {
		t.Error("the record has no trace")
	}
}

func closedAddress(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	return strings.TrimPrefix(server.URL, "http://")
}

var metricsURL = regexp.MustCompile(`metrics are served.*url"?[=:]"?(http://[^/ ]+)/metrics`)

// scrape asks a process for a path below where it says that it serves metrics.
func scrape(t *testing.T, p *process, path string) (int, string) {
	t.Helper()
	var found []string
	poll(t, "line that says where metrics are", func() bool {
		found = metricsURL.FindStringSubmatch(p.err.String())
		return found != nil
	})
	answer, err := http.Get(found[1] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestEachLongCommandServesMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := spawn(t, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:-1", "--metrics", "127.0.0.1:-1")
	s := &site{url: serve.url()}
	jobs := writeFile(t, filepath.Join(dir, "jobs.jsonl"), `{"input_ref":"data:,x"}`+"\n")
	until := "until test -f " + filepath.Join(dir, "go") + "; do sleep 0.05; done"
	work := spawnWith(t, []string{"WEFT_METRICS=127.0.0.1:-1"}, s.args([]string{"work", "hash", "--log-format", "json", "--", "sha256sum"})...)
	s.weft(t, "enqueue", "other", "--input-ref", "data:,x").want(t, app.ExitDone)
	processes := map[string]*process{
		"serve": serve, "work": work,
		"keep": spawn(t, s.args([]string{"keep", "--metrics", "127.0.0.1:-1"})...),
		"run":  spawn(t, "run", "hash", "--jobs", jobs, "--metrics", "127.0.0.1:-1", "--log-level", "info", "--", "sh", "-c", until),
	}
	for name, p := range processes {
		t.Run(name, func(t *testing.T) {
			poll(t, "healthy process", func() bool {
				code, _ := scrape(t, p, "/healthz")
				return code == http.StatusOK
			})
			var text string
			poll(t, "scrape with the stage", func() bool {
				_, text = scrape(t, p, "/metrics")
				return strings.Contains(text, `weft_jobs{stage="hash",state="waiting"}`)
			})
			for _, part := range []string{"weft_connection_up 1", "weft_fabric_up 1", `weft_build_info{goversion="go`, "go_goroutines", "process_"} {
				if !strings.Contains(text, part) {
					t.Errorf("the scrape has no %s", part)
				}
			}
			other := strings.Contains(text, `weft_jobs{stage="other"`)
			if want := name == "serve" || name == "keep"; other != want {
				t.Errorf("the scrape shows another stage: %t, want %t", other, want)
			}
		})
	}
	writeFile(t, filepath.Join(dir, "go"), "")
	processes["run"].wait().want(t, app.ExitDone)
}

func TestMetricsAtAnAddressThatWillNotDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.weft(t, "keep", "--metrics", "9464").want(t, app.ExitUsage, "metrics", "host:port")
	taken := strings.TrimPrefix(s.url, "nats://")
	s.weft(t, "keep", "--metrics", taken).want(t, app.ExitFailed, "metrics", taken)
}
