package job

// Limits of names and texts. Sizes are bytes.
const (
	MaxIDLength     = 128
	MaxStageLength  = 64
	MaxWorkerLength = 64
	MaxKeyLength    = 256
	MaxSpecSize     = 128 << 10
	MaxReasonSize   = 4 << 10
	MaxProgressSize = 8 << 10
	// MaxInlineOutput is the largest output kept in the record itself, as a
	// data: URI; a larger one becomes an object. It counts bytes of output.
	MaxInlineOutput = 8 << 10
	// MaxOutputRefSize is the longest output_ref, counted as JSON writes it. An
	// inline output fits in any encoding that a data: URI can have.
	MaxOutputRefSize = 28 << 10
)

// CheckID refuses a job id that could not be a KV key and a subject token:
// ids are 1 to 128 of A-Z a-z 0-9 _ = -.
func CheckID(id string) error {
	if id == "" {
		return Invalid("id must not be empty")
	}
	if len(id) > MaxIDLength || !each(id, idByte) {
		return Invalid("id %s is not 1 to %d of A-Z a-z 0-9 _ = -", quote(id), MaxIDLength)
	}
	return nil
}

// CheckStage refuses a stage that could not be part of a stream's name: stages
// are a lower-case letter or digit, then up to 63 of a-z 0-9 _ -.
func CheckStage(stage string) error {
	if stage == "" {
		return Invalid("stage must not be empty")
	}
	if len(stage) > MaxStageLength || !each(stage, stageByte) || !alnumLower(stage[0]) {
		return Invalid("stage %s is not a-z or 0-9 followed by up to %d of a-z 0-9 _ -", quote(stage), MaxStageLength-1)
	}
	return nil
}

// CheckWorker refuses a worker id that could not be a KV key and a subject
// token: worker ids are 1 to 64 of A-Z a-z 0-9 _ -.
func CheckWorker(id string) error {
	if id == "" {
		return Invalid("worker_id must not be empty")
	}
	if len(id) > MaxWorkerLength || !each(id, workerByte) {
		return Invalid("worker_id %s is not 1 to %d of A-Z a-z 0-9 _ -", quote(id), MaxWorkerLength)
	}
	return nil
}

func each(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func alnumLower(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
func stageByte(c byte) bool  { return alnumLower(c) || c == '_' || c == '-' }
func workerByte(c byte) bool { return stageByte(c) || 'A' <= c && c <= 'Z' }
func idByte(c byte) bool     { return workerByte(c) || c == '=' }
