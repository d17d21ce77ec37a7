package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/natstest"
	"github.com/weft-fabric/weft/internal/s3test"
	"github.com/weft-fabric/weft/job"
	"github.com/weft-fabric/weft/resolver/s3"
	"github.com/weft-fabric/weft/worker"
)

const (
	bucket   = "photos"
	patience = 30 * time.Second
)

// newStore is a client of the server with the keys.
func newStore(t *testing.T, server *s3test.Server, access, secret string, edit ...func(*s3.Options)) *s3.Store {
	t.Helper()
	o := s3.Options{Endpoint: server.URL, Credentials: credentials.NewStaticV4(access, secret, "")}
	for _, f := range edit {
		f(&o)
	}
	store, err := s3.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestS3 has one server for all its parts, since one takes long to build.
func TestS3(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, bucket)
	store := newStore(t, server, s3test.AccessKey, s3test.SecretKey)
	large := bytes.Repeat([]byte("0123456789abcdef"), 6<<20/16)
	server.Put(t, bucket, "a b/large?é.bin", large)
	ref := "s3://photos/a b/large?é.bin"

	t.Run("an object streams", func(t *testing.T) { wantObject(t, store, ref, large) })
	t.Run("what is not there stays so", func(t *testing.T) {
		for _, ref := range []string{"s3://photos/none", "s3://nobody-has-this/none", "s3://photos", "s3://photos/", "s3:photos/x", "s3:///x", "s3://A B/x"} {
			_, err := store.Open(t.Context(), ref)
			if absent := strings.HasSuffix(ref, "/none"); !errors.Is(err, job.ErrUnopenable) || errors.Is(err, job.ErrAbsent) != absent {
				t.Errorf("%s: %v; want that it is absent: %t", ref, err, absent)
			}
		}
	})
	t.Run("a refusal may pass", func(t *testing.T) {
		_, err := newStore(t, server, s3test.AccessKey, "another s3cret").Open(t.Context(), ref)
		if err == nil || errors.Is(err, job.ErrUnopenable) || !strings.Contains(err.Error(), "403") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("refused: %v", err)
		}
	})
	t.Run("a server that is away may come back", func(t *testing.T) {
		_, err := newStore(t, &s3test.Server{URL: "http://127.0.0.1:1"}, "a", "s3cret").Open(t.Context(), ref)
		if err == nil || errors.Is(err, job.ErrUnopenable) {
			t.Errorf("away: %v", err)
		}
	})
	t.Run("a link reads without credentials, until it expires", func(t *testing.T) {
		link := linkOf(t, store, ref)
		if code, body := fetch(t, link); code != http.StatusOK || !bytes.Equal(body, large) {
			t.Errorf("a link gives %d and %d bytes", code, len(body))
		}
		short := linkOf(t, newStore(t, server, s3test.AccessKey, s3test.SecretKey, func(o *s3.Options) { o.LinkLife = s3.MinLinkLife }), ref)
		natstest.Eventually(t, patience, "the link expires", func() bool {
			code, _ := fetch(t, short)
			return code == http.StatusForbidden
		})
	})
	t.Run("an output is put in parts and read again", func(t *testing.T) { testPut(t, server, store) })
	t.Run("a handler of the SDK", func(t *testing.T) { testHandler(t, store, ref, large) })
}

func wantObject(t *testing.T, store *s3.Store, ref string, want []byte) {
	t.Helper()
	body, err := store.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	got, err := io.ReadAll(body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes of %d, %v", ref, len(got), len(want), err)
	}
}

func linkOf(t *testing.T, store *s3.Store, ref string) string {
	t.Helper()
	link, err := store.Link(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func fetch(t *testing.T, link string) (int, []byte) {
	t.Helper()
	answer, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, body
}

func testPut(t *testing.T, server *s3test.Server, store *s3.Store) {
	outputs, err := store.WithPrefix("s3://photos/results/")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("out"), 20<<20/3) // more than a part
	ref, err := outputs.Put(t.Context(), "jb_1/2", bytes.NewReader(data))
	if err != nil || ref != "s3://photos/results/jb_1/2" {
		t.Fatalf("%q, %v", ref, err)
	}
	wantObject(t, store, ref, data)
	for name, c := range map[string]struct {
		secret, prefix string
	}{
		"no such bucket": {s3test.SecretKey, "s3://nobody-has-this"},
		"refused":        {"another s3cret", "s3://photos"},
	} {
		broken, err := newStore(t, server, s3test.AccessKey, c.secret).WithPrefix(c.prefix)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := broken.Put(t.Context(), "jb_1/2", bytes.NewReader(data)); !errors.Is(err, job.ErrInvalidJob) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, prefix := range []string{"", "photos", "s3://", "s3:///x", "http://photos"} {
		if _, err := store.WithPrefix(prefix); err == nil {
			t.Errorf("prefix %q was accepted", prefix)
		}
	}
}

// testHandler: a handler asks for its input and its link, and its large output goes
// where the input came from. The record has neither link nor secret.
func testHandler(t *testing.T, store *s3.Store, ref string, want []byte) {
	outputs, err := store.WithPrefix("s3://photos/results")
	if err != nil {
		t.Fatal(err)
	}
	o := fabric.DefaultOptions()
	o.Resolvers, o.Outputs = map[string]fabric.Resolver{s3.Scheme: store}, outputs
	f, err := fabric.Open(t.Context(), natstest.Conn(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var log bytes.Buffer
	links := make(chan string, 1)
	stop := work(t, f, &log, func(ctx context.Context, task *worker.Task, _ struct{}) ([]byte, error) {
		link, err := task.InputLink(ctx)
		if err != nil {
			return nil, err
		}
		links <- link
		input, err := task.Input(ctx)
		if err != nil {
			return nil, err
		}
		defer input.Close()
		return io.ReadAll(input)
	})
	j, err := f.Enqueue(t.Context(), job.Spec{Stage: "copy", InputRef: ref})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err = f.Wait(ctx, j.ID)
	if err != nil || j.State != job.StateSucceeded || j.OutputRef != "s3://photos/results/"+j.ID+"/1" {
		t.Fatalf("%s %s %s, %v", j.State, j.Reason, j.OutputRef, err)
	}
	wantObject(t, store, j.OutputRef, want)
	stop()
	if code, body := fetch(t, <-links); code != http.StatusOK || !bytes.Equal(body, want) {
		t.Errorf("the handler's link gives %d and %d bytes", code, len(body))
	}
	for _, secret := range []string{"X-Amz", s3test.SecretKey, s3test.AccessKey} {
		if text := string(j.AppendJSON(nil)) + log.String(); strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
}

// work runs a worker until stop is called, which waits for its end.
func work(t *testing.T, f *fabric.Fabric, log io.Writer, handler func(context.Context, *worker.Task, struct{}) ([]byte, error)) (stop func()) {
	t.Helper()
	runner, err := f.Runner("")
	if err != nil {
		t.Fatal(err)
	}
	o := worker.DefaultOptions()
	o.Inputs, o.Logger = f, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w, err := worker.New(runner, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Handle("copy", worker.Typed(handler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	}
}
