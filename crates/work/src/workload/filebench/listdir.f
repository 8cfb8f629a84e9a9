# Lists directories of a tree of empty files.
set $nfiles=1000000
set $dirwidth=5
set $count=8000000
set $nthreads=1

define fileset name=files,path=/,entries=$nfiles,dirwidth=$dirwidth,size=0,prealloc=100

define process name=maker,instances=1
{
  thread name=maker,instances=$nthreads
  {
    flowop listdir name=list,filesetname=files
    flowop finishoncount name=enough,value=$count
  }
}

run 86400
